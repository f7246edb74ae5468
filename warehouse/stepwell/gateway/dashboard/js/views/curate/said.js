// What counts of what was said about a step; each can be taken back, by an event of its own.
import { html } from "../../lib/html.js";
import { Panel } from "../../lib/panel.js";
import { Text } from "../../lib/text.js";
import { ago, line, time } from "../../lib/format.js";
import { toast } from "../../lib/toast.js";
import { inWords } from "./kinds.js";
import { takeBack } from "./judge.js";
import { textOf } from "./message.js";

export function Said({ step, onSaid }) {
  const said = step.feedback ?? [];
  const undo = async (one) => {
    if (!(await takeBack({ id: one.event_id, step_id: step.step_id }))) return;
    toast(`Undone: ${inWords(one)}`);
    onSaid();
  };
  return html`<${Panel} title="Said of it" hint=${said.length ? "" : "nothing yet"}>
    ${said.length > 0 && html`<ul class="said">${said.map((one) => html`<li key=${one.event_id}>
      <div><b>${inWords(one)}</b>
        <button type="button" class="small" aria-label=${`Undo: ${inWords(one)}`} onClick=${() => undo(one)} disabled=${one.target_kind !== "step"}>Undo</button></div>
      <span class="dim" title=${time(one.created_at)}>${line(one.author ?? "no author", 60)}, ${ago(one.created_at)}${one.target_kind === "response" ? ", by the provider's id" : ""}</span>
      ${one.payload?.comment && one.kind !== "comment" && html`<${Text} text=${one.payload.comment} first=${400} label="why" />`}
      ${one.kind === "correction" && html`<${Text} text=${textOf(one.payload?.correction)} first=${600} label="the better answer" />`}
    </li>`)}</ul>`}
  <//>`;
}
