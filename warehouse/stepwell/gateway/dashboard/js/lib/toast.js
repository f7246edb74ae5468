// Short words about what was done, for some seconds; `undo` adds a button. `toast("42 steps labelled", {undo: () => …})`.
import { html, useEffect, useState } from "./html.js";
import { inert } from "./format.js";

const SECONDS = 6;
let entries = [];
let serial = 0;
let refresh = () => {};

export function toast(text, { kind = "good", undo = null, seconds = undo ? 20 : SECONDS } = {}) {
  const key = ++serial;
  entries = [...entries.slice(-3), { key, text, kind, undo }];
  refresh(entries);
  setTimeout(drop, seconds * 1000, key);
}

// What went wrong, in the gateway's words.
export const complain = (error) => toast(error.message || String(error), { kind: "bad", seconds: 15 });

const drop = (key) => refresh((entries = entries.filter((entry) => entry.key !== key)));

export function Toasts() {
  const [shown, show] = useState(entries);
  useEffect(() => ((refresh = show), () => (refresh = () => {})), []);
  return html`<div class="toasts" role="status" aria-live="polite">
    ${shown.map(({ key, text, kind, undo }) => html`<div key=${key} class="toast ${kind}">
      <span>${inert(text)}</span>
      ${undo && html`<button type="button" class="small" onClick=${() => (drop(key), undo())}>Undo</button>`}
      <button type="button" class="small bare" aria-label="Dismiss" onClick=${() => drop(key)}>×</button>
    </div>`)}
  </div>`;
}
