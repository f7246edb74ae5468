// What was said about a trajectory and its steps: rewards, labels, comments, how it ended, what ingest found out.
import { html, useState } from "../../lib/html.js";
import { Badge, Empty, Panel } from "../../lib/panel.js";
import { Text } from "../../lib/text.js";
import { NONE, id, int, line, signed, time } from "../../lib/format.js";

const FIRST = 20;

export function Events({ events, choose, title = "Judgements and events" }) {
  const [all, setAll] = useState(false);
  const shown = all ? events : events.slice(0, FIRST);
  return html`<${Panel} title=${title} hint=${int(events.length)}>
    ${events.length === 0 && html`<${Empty}>Nobody has said anything about it yet.<//>`}
    <ul class="events">${shown.map((event) => html`<${Event} key=${event.event_id} event=${event} choose=${choose} />`)}</ul>
    ${events.length > shown.length && html`<button type="button" class="small" onClick=${() => setAll(true)}>${int(events.length - shown.length)} more</button>`}
  <//>`;
}

function Event({ event, choose }) {
  const { kind, name, value, text, author, payload, target_kind: target, target_id: of } = event;
  const comment = payload?.comment ?? null;
  return html`<li><${Badge} tone=${value !== null ? "accent" : ""}>${line(kind, 40)}<//>
    ${name && name !== kind && html` <b>${line(name, 60)}</b>`}
    ${value !== null && html` <b>${signed(value)}</b>`}
    ${text && html` ${line(text, 200)}`}
    ${payload?.correction && html` <${Text} text=${payload.correction.content ?? payload.correction} first=${400} label="Correction" />`}
    ${comment && html` <span class="comment">“${line(comment, 400)}”</span>`}
    ${" "}<span class="dim">${author ? `by ${line(author, 60)}, ` : ""}${time(event.created_at) || NONE}</span>
    ${target === "step" && choose && html` <button type="button" class="bare small mono" onClick=${() => choose(of)}>${id(of, 26)}</button>`}
    ${target === "response" && html` <span class="mono dim">${id(of, 26)}</span>`}
  </li>`;
}
