// One step to be judged: what it was asked, what it said, what was said of it.
import { html } from "../../lib/html.js";
import { Asked } from "../../lib/panel.js";
import { at, useApi } from "../../lib/api.js";
import { href, visit } from "../../lib/url.js";
import { settled } from "./judge.js";
import { Judged } from "./judged.js";
import { useKeys } from "../../lib/keys.js";

export function OneStep({ rest: [step_id], params, go }) {
  const asked = useApi(step_id ? at`/steps/${step_id}` : null);
  const { edit, ...list } = params;
  const back = href("curate", [], list);
  useKeys({ Escape: ["back to the list", () => (edit ? go({ edit: null }) : visit(back))] });
  const onSaid = async () => (await settled(), asked.reload());
  return html`<p><a href=${back}>← the list</a></p>
    <${Asked} of=${asked}>${(step) => html`<${Judged} key=${step.step_id} step=${step} editing=${edit === "1"} setEditing=${(on) => go({ edit: on ? "1" : null })} onSaid=${onSaid} />`}<//>`;
}
