// One quarantined call, whole, and what comes of parsing it again.
import { html, useState } from "../../lib/html.js";
import { Asked, Badge } from "../../lib/panel.js";
import { Dialog, confirm } from "../../lib/dialog.js";
import { Text } from "../../lib/text.js";
import { at, post, useApi } from "../../lib/api.js";
import { bytes, id, inert, time } from "../../lib/format.js";
import { complain } from "../../lib/toast.js";
import { href } from "../../lib/url.js";

const AGAIN = "This version of the parser reads it once more. What it can read becomes steps under the ids that they would have had; nothing is doubled.";
const OUTCOMES = {
  accepted: ["good", "It can be read now: its steps come with the next commit."],
  no_step: ["good", "It is no generation, and leaves quarantine."],
  unreadable: ["warn", "This version cannot read it either."],
  no_call: ["warn", "What is kept of it is no call that could be parsed."],
};

export function Record({ record, onClose, onDone }) {
  const asked = useApi(at`/quarantine/${record}`);
  const [outcome, setOutcome] = useState(null);
  const [busy, setBusy] = useState(false);
  const again = async () => {
    if (!(await confirm({ title: "Parse it again?", text: AGAIN, yes: "Parse again" }))) return;
    setBusy(true);
    try {
      setOutcome(await post(at`/quarantine/${record}/reparse`));
      onDone();
    } catch (error) {
      complain(error);
    } finally {
      setBusy(false);
    }
  };
  return html`<${Dialog} title="Quarantined call" onClose=${onClose} wide>
    <${Asked} of=${asked}>${(row) => html`<dl class="facts">
        <dt>Reason</dt><dd>${inert(row.reason)}</dd>
        <dt>Call</dt><dd class="mono">${inert(row.exchange_id)}</dd>
        <dt>Dialect</dt><dd>${inert(row.dialect ?? "unknown")}</dd><dt>When</dt><dd>${time(row.created_at)}</dd>
      </dl>
      <${Side} title="Request" side=${row.request} /><${Side} title="Answer" side=${row.response} />`}<//>
    ${outcome && html`<${Outcome} outcome=${outcome} />`}
    <footer><button type="button" onClick=${onClose}>Close</button>
      <button type="button" class="primary" disabled=${busy || !asked.data} onClick=${again}>Parse again</button></footer>
  <//>`;
}

function Side({ title, side }) {
  const body = side.body ?? side.body_b64 ?? "";
  const size = side.bytes === null ? "not kept" : `${bytes(side.bytes)}${side.is_whole ? "" : ", its beginning"}${side.body_b64 ? ", base64" : ""}`;
  return html`<section class="side"><h3>${title} <span class="dim">${size}${side.problem ? `, ${inert(side.problem)}` : ""}</span></h3>
    ${side.head && html`<details><summary>Head</summary><${Text} text=${side.head} label=${`${title}: head`} /></details>`}
    ${body && html`<${Text} text=${body} label=${`${title}: body`} />`}</section>`;
}

function Outcome({ outcome }) {
  const [tone, words] = OUTCOMES[outcome.outcome] ?? ["", outcome.outcome];
  return html`<p role="status" class="outcome"><${Badge} tone=${tone}>${inert(outcome.outcome).replace("_", " ")}<//> ${words} ${outcome.reason ? inert(outcome.reason) : ""}
    ${outcome.steps.map((one) => html` <a key=${one} class="mono" href=${href("trajectories", [], { step: one })}>${id(one)}</a>`)}</p>`;
}
