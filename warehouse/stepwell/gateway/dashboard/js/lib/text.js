// Words of agents and models, of any length: <${Text} text=${…} />. A piece at a time is in the page, however much there is.
import { html, useEffect, useMemo, useState } from "./html.js";
import { inert, int } from "./format.js";
import { toast } from "./toast.js";

const FIRST = 2_000;
const PRETTY = 200_000; // characters up to which JSON is set out
const EXACT = /\d{16,}/; // numbers of so many digits would be rounded by setting them out
export const PIECE = 20_000;

export function Text({ text, first = FIRST, label = "text" }) {
  const said = useMemo(() => (typeof text === "string" ? text : JSON.stringify(text, null, 2) ?? ""), [text]);
  const [piece, setPiece] = useState(-1); // -1: only its beginning
  useEffect(() => setPiece(-1), [text]);
  const pieces = Math.ceil(said.length / PIECE);
  const begin = Math.max(0, piece) * PIECE;
  const shown = inert(piece < 0 ? cut(said, 0, first) : cut(said, begin, begin + PIECE));
  const long = said.length > first;
  return html`<div class="text">
    <pre dir="ltr" tabindex=${long && piece >= 0 ? 0 : undefined} aria-label=${label}>${shown}${piece < 0 && long ? "…" : ""}</pre>
    ${long && html`<div class="text-more">
      ${piece < 0 && html`<button type="button" class="small" onClick=${() => setPiece(0)}>Show all</button>`}
      ${piece >= 0 && html`<button type="button" class="small" onClick=${() => setPiece(-1)}>Show less</button>`}
      ${piece >= 0 && pieces > 1 && html`
        <button type="button" class="small" disabled=${piece === 0} onClick=${() => setPiece(piece - 1)} aria-label="Earlier part">‹</button>
        <span>part ${piece + 1} of ${int(pieces)}</span>
        <button type="button" class="small" disabled=${piece + 1 >= pieces} onClick=${() => setPiece(piece + 1)} aria-label="Later part">›</button>`}
      <span class="dim">${int(said.length)} characters</span>
      <${Copy} text=${said} />
    </div>`}
  </div>`;
}

// A button that copies; a text, or a function that gives one.
export function Copy({ text, label = "Copy" }) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(typeof text === "function" ? text() : text);
      toast("Copied");
    } catch {
      toast("This browser does not let the page copy", { kind: "bad" });
    }
  };
  return html`<button type="button" class="small" onClick=${copy}>${label}</button>`;
}

// JSON in lines; whatever is none, as it was written.
export function setOut(text) {
  if (typeof text !== "string" || text.length > PRETTY || EXACT.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// No half of a surrogate pair at either end.
function cut(text, from, to) {
  const low = (at) => (text.charCodeAt(at) & 0xfc00) === 0xdc00;
  return text.slice(from > 0 && low(from) ? from + 1 : from, to < text.length && low(to) ? to + 1 : to);
}
