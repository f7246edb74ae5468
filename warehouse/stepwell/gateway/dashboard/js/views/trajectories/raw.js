// The call as it crossed the wire, where it was kept. Credentials are in none.
import { html } from "../../lib/html.js";
import { Asked, Badge, Empty, Problem } from "../../lib/panel.js";
import { Text, setOut } from "../../lib/text.js";
import { at, useApi } from "../../lib/api.js";
import { bytes, inert, time } from "../../lib/format.js";

export function Raw({ step }) {
  const asked = useApi(at`/steps/${step.step_id}/exchange`);
  if (asked.error?.status === 404 && asked.error.problem?.setting) return html`<${Empty}>${asked.error.message}<//>`;
  if (asked.error) return html`<${Problem} error=${asked.error} retry=${asked.reload} />`;
  return html`<${Asked} of=${asked}>${(call) => html`<p class="dim">Call <span class="mono">${inert(call.exchange_id)}</span>, ${inert(call.dialect ?? "of no known dialect")},
      kept ${time(call.created_at)}${call.reason ? html`; <${Badge} tone="warn">not read<//> ${inert(call.reason)}` : ""}</p>
    <${Side} title="Request" side=${call.request} /><${Side} title="Response" side=${call.response} />`}<//>`;
}

function Side({ title, side }) {
  const { head, body, body_b64: encoded, bytes: size, is_whole: whole, problem } = side;
  const { headers, ...rest } = typeof head === "object" && head !== null ? head : { said: head };
  return html`<section class="wire" aria-label=${title}><h3>${title}</h3>
    <p class="mono">${Object.entries(rest).filter(([, value]) => value !== null && typeof value !== "object").map(([name, value]) => html`<span key=${name}><span class="dim">${inert(name)}</span> ${inert(value)} </span>`)}</p>
    ${Array.isArray(headers) && headers.length > 0 && html`<details><summary>${headers.length} headers</summary>
      <dl class="facts mono">${headers.map(([name, value], index) => [html`<dt key=${index}>${inert(name)}</dt>`, html`<dd key=${`${index} value`}>${inert(value)}</dd>`])}</dl></details>`}
    ${problem && html`<p><${Badge} tone="warn">body<//> ${inert(problem)}</p>`}
    ${size === null || size === undefined ? html`<p class="dim">Its body is not kept.</p>` : html`<p class="dim">${bytes(size)}${whole ? "" : ", of which the beginning is shown"}${encoded ? ", no text: base64" : ""}</p>
      <${Text} text=${encoded ?? setOut(body)} label=${`${title} body`} />`}
  </section>`;
}
