// Parts of messages in their canonical form (docs/schema.md): text, thinking, tool calls and results, images, and whatever else there is.
import { html, useState } from "./html.js";
import { Badge } from "./panel.js";
import { Few } from "./few.js";
import { Text, setOut } from "./text.js";
import { bytes, id, inert, line } from "./format.js";

const MOST = 20; // parts of a message that are shown at once

// A message that says something of another form is shown as the text that it is.
export function partsOf(message) {
  const content = message?.content ?? message;
  if (Array.isArray(content)) return content;
  return [typeof content === "string" ? { type: "text", text: content } : { type: "other", extra: content }];
}

export const Parts = ({ parts }) => html`<${Few} of=${parts} most=${MOST} what="parts">${(part, index) => html`<${Part} key=${index} part=${part} />`}<//>`;

function Part({ part }) {
  switch (part?.type) {
    case "text":
      return html`<${Text} text=${part.text} />`;
    case "refusal":
      return html`<div class="part"><${Badge} tone="warn">refusal<//><${Text} text=${part.text} /></div>`;
    case "reasoning":
      return html`<${Reasoning} part=${part} />`;
    case "tool_call":
      return html`<div class="part call"><div><${Badge} tone="accent">tool call<//> <b class="mono">${line(part.name, 120)}</b> <span class="dim mono">${part.id ? id(part.id) : ""}</span></div>
        <${Text} text=${setOut(part.arguments)} label="Arguments" /></div>`;
    case "tool_result":
      return html`<div class="part result"><div><${Badge}>tool result<//> <span class="dim mono">${part.id ? id(part.id) : ""}</span>${part.extra?.is_error && html` <${Badge} tone="bad">error<//>`}</div>
        <${Parts} parts=${partsOf(part)} /></div>`;
    case "server_tool":
      return html`<div class="part"><${Badge}>the provider's tool<//> <b class="mono">${line(part.name, 120)}</b>${part.extra && html`<${Text} text=${part.extra} first=${600} />`}</div>`;
    case "image":
      return html`<${Image} part=${part} />`;
    default:
      return html`<div class="part"><${Badge}>${line(part?.type ?? "other", 30)}<//>${part?.hash && html` <span class="dim mono">${id(part.hash)}</span>`}<${Text} text=${part?.extra ?? part} first=${600} /></div>`;
  }
}

function Reasoning({ part }) {
  const [open, setOpen] = useState(true);
  return html`<div class="part reasoning"><button type="button" class="bare small" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}><span aria-hidden="true">${open ? "▾" : "▸"}</span> thinking</button>
    ${part.redacted && html`<${Badge}>withheld by the provider<//>`}${part.signature && html`<${Badge}>signed<//>`}
    ${open && part.text && html`<${Text} text=${part.text} label="Thinking" />`}</div>`;
}

// An image that came along is shown; one that is only linked to is named, and nothing is fetched from elsewhere.
function Image({ part }) {
  const found = imageOf(part.extra);
  const [failed, setFailed] = useState(false);
  return html`<figure class="part image"><figcaption><${Badge}>image<//> <span class="dim mono">${part.hash ? id(part.hash) : ""}</span>${found?.data && html` <span class="dim">${bytes((found.data.length * 3) / 4)}</span>`}</figcaption>
    ${found?.data && !failed && html`<img src=${`data:${found.kind};base64,${found.data}`} alt="An image of this message" loading="lazy" onError=${() => setFailed(true)} />`}
    ${failed && html`<p class="dim">The bytes are no image that a browser can show.</p>`}
    ${found?.url && html`<p class="mono">${inert(found.url.slice(0, 500))}</p>`}
    ${!found && html`<p class="dim">Its bytes are not kept with the message.</p>`}</figure>`;
}

const KINDS = /^image\/(?:png|jpeg|gif|webp)$/;
const DATA = /^data:(image\/(?:png|jpeg|gif|webp));base64,([A-Za-z0-9+/=_-]+)$/;

// {kind, data: base64} or {url}: whichever provider's form it has.
export function imageOf(extra) {
  if (typeof extra !== "object" || extra === null) return null;
  const source = extra.source ?? extra.image ?? extra.inline_data ?? extra.inlineData ?? {};
  const kind = source.media_type ?? source.mime_type ?? source.mimeType;
  const data = source.data ?? source.bytes;
  if (KINDS.test(kind) && typeof data === "string") return { kind, data: data.replace(/-/g, "+").replace(/_/g, "/") };
  const url = [extra.image_url?.url, extra.image_url, source.url, extra.url].find((one) => typeof one === "string");
  const inside = url && DATA.exec(url);
  if (inside) return { kind: inside[1], data: inside[2] };
  return url ? { url } : null;
}
