// Messages in canonical form, as one reads a conversation.
import { html, useState } from "../../lib/html.js";
import { Badge } from "../../lib/panel.js";
import { Parts, partsOf } from "../../lib/parts.js";
import { line, many } from "../../lib/format.js";

const LATEST = 4; // messages that are shown at first
const MORE = 30; // earlier ones that are shown on request, each time

export function Conversation({ messages }) {
  const [shown, setShown] = useState(LATEST);
  const list = Array.isArray(messages) ? messages : [];
  if (!list.length) return html`<p class="dim">It has no text: only ids were submitted.</p>`;
  const hidden = Math.max(0, list.length - shown);
  return html`<div class="conversation">
    ${hidden > 0 && html`<button type="button" class="small" onClick=${() => setShown(shown + MORE)}>Show ${many(hidden, "earlier message")}</button>`}
    ${list.slice(hidden).map((message, at) => html`<${Message} key=${hidden + at} message=${message} />`)}
  </div>`;
}

export function Message({ message, children }) {
  const parts = message?.content ? partsOf(message) : [];
  return html`<div class="message">
    <div class="role"><${Badge} tone=${message?.role === "assistant" ? "accent" : ""}>${line(message?.role ?? "?", 24)}<//>${children}</div>
    ${parts.length ? html`<${Parts} parts=${parts} />` : html`<p class="dim">says nothing</p>`}
  </div>`;
}

// The text of an answer, for it to be corrected.
export const textOf = (message) => partsOf(message?.content ? message : { content: [] }).filter((part) => part?.type === "text").map((part) => part.text).join("");
