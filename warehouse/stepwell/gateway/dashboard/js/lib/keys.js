// The keyboard. useKeys({"j": ["next row", next], "g o": ["Overview", go]}): while the component is there; the newest has the first word.
// `?` lists them all. Keys that are typed into a field are the field's: Escape only leaves it. Behind a dialog no key does anything.
import { useLayoutEffect, useRef } from "./html.js";

const layers = [];
// For what is done once however long the key is held.
export const once = (act) => (event) => event.repeat || act(event);
let begun = { keys: "", at: 0 };
const PATIENCE = 1200;

export function useKeys(bindings) {
  const layer = useRef({});
  layer.current.bindings = bindings;
  // With what is seen, not after it: who is quick presses in between.
  useLayoutEffect(() => {
    layers.push(layer.current);
    return () => layers.splice(layers.indexOf(layer.current), 1);
  }, []);
}

// [[keys, what they do], …], as it is now.
export function listed() {
  const found = new Map();
  for (const { bindings } of layers) for (const [keys, [what]] of Object.entries(bindings)) found.set(keys, what);
  return [...found];
}

const inField = (target) =>
  target.closest?.('input:not([type="checkbox"], [type="radio"], [type="button"]), textarea, select, [contenteditable]');

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  if (inField(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const now = performance.now();
  const keys = now - begun.at < PATIENCE && begun.keys ? `${begun.keys} ${event.key}` : event.key;
  begun = { keys: "", at: 0 };
  for (const wanted of keys === event.key ? [keys] : [keys, event.key]) {
    for (let layer = layers.length - 1; layer >= 0; layer--) {
      const { bindings } = layers[layer];
      const bound = bindings[wanted];
      if (bound) {
        if (event.key === "Enter" && event.target.closest?.("button, a, summary")) return; // theirs
        event.preventDefault();
        bound[1](event);
        return;
      }
      if (Object.keys(bindings).some((name) => name.startsWith(`${wanted} `))) begun = { keys: wanted, at: now };
    }
  }
});
