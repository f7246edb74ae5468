// What the model saw, message by message, and what it said.
import { cls, html, useMemo, useState } from "../../lib/html.js";
import { Empty } from "../../lib/panel.js";
import { Text } from "../../lib/text.js";
import { id, int, line } from "../../lib/format.js";
import { Parts, partsOf } from "../../lib/parts.js";

const AT_ONCE = 30; // messages that are put into the page at a time

export function Messages({ step }) {
  const messages = useMemo(() => listed(step.messages), [step]);
  const fresh = useMemo(() => begins(messages), [messages]);
  const [from, setFrom] = useState(Math.max(0, messages.length - AT_ONCE));
  if (!messages.length && !step.response) return html`<${Empty}>This step has no text: it was submitted as tokens. Look at its tokens (2).<//>`;
  return html`<div class="messages">
    <${Tools} tools=${listed(step.tools)} />
    ${from > 0 && html`<p><button type="button" class="small" onClick=${() => setFrom(Math.max(0, from - AT_ONCE))}>${int(from)} earlier messages</button>
      ${" "}<span class="dim">the conversation before this step${step.parent_id ? html` (<span class="mono">${id(step.parent_id)}</span> has them)` : ""}</span></p>`}
    ${messages.slice(from).map((message, index) => html`<${Message} key=${from + index} message=${message} number=${from + index} fresh=${from + index >= fresh} />`)}
    ${step.response && html`<${Message} key="answer" message=${step.response} answer=${step} />`}
  </div>`;
}

// What is no list is shown as the one thing that it is.
export const listed = (said) => (said === null || said === undefined ? [] : Array.isArray(said) ? said : [said]);

// Where what this step added begins: behind the last thing that the model said before.
function begins(messages) {
  for (let at = messages.length - 1; at >= 0; at--) if (messages[at]?.role === "assistant") return at + 1;
  return 0;
}

export function Message({ message, number, answer, fresh = true }) {
  const role = typeof message?.role === "string" ? message.role : "message";
  const [open, setOpen] = useState(fresh);
  const parts = partsOf(message);
  return html`<article class=${cls("message", `role-${answer ? "answer" : known(role)}`, !open && "closed")} aria-label=${answer ? "Answer" : `Message ${number + 1}`}>
    <header><button type="button" class="bare role" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}><span aria-hidden="true">${open ? "▾" : "▸"}</span> ${line(role, 24)}</button>
      ${answer ? html`<span class="badge accent">answer</span>${answer.finish_reason && html` <span class="dim">ended: ${line(answer.finish_reason, 40)}</span>`}` : html`<span class="dim">${int(number + 1)}</span>`}
      ${message?.name && html` <span class="dim">${line(message.name, 60)}</span>`}
      ${!open && html`<span class="dim preview">${preview(parts)}</span>`}</header>
    ${open && html`<${Parts} parts=${parts} />`}
    ${open && message?.extra && html`<details class="extra"><summary>more that it carries</summary><${Text} text=${message.extra} /></details>`}
  </article>`;
}

const ROLES = new Set(["system", "developer", "user", "assistant", "tool"]);
const known = (role) => (ROLES.has(role) ? role : "other");

function preview([one]) {
  if (one?.type === "tool_result") return preview(partsOf(one));
  return line(typeof one?.text === "string" ? one.text : one?.name ?? one?.type ?? "", 100);
}

function Tools({ tools }) {
  if (!tools.length) return null;
  return html`<details class="tools-told"><summary>${int(tools.length)} ${tools.length === 1 ? "tool" : "tools"}: ${line(tools.map(nameOf).join(", "), 160)}</summary><${Text} text=${tools} label="Tools" /></details>`;
}

const nameOf = (tool) => String(tool?.function?.name ?? tool?.name ?? tool?.type ?? "?");
