// Light, dark, or as the system has it; and colours of the stylesheet for what is drawn on a canvas.
import { useEffect, useState } from "./html.js";

const KEY = "stepwell.theme";
const dark = matchMedia("(prefers-color-scheme: dark)");
const changed = () => dispatchEvent(new Event("stepwell:theme"));
dark.addEventListener("change", changed);

export const theme = () => localStorage.getItem(KEY) || "auto";

export function setTheme(name) {
  if (name === "auto") localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, name);
  apply();
  changed();
}

export function apply() {
  if (theme() === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme();
}

// Counts up when the colours change: for what must be drawn anew.
export function useTheme() {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const again = () => setCount((number) => number + 1);
    addEventListener("stepwell:theme", again);
    return () => removeEventListener("stepwell:theme", again);
  }, []);
  return count;
}

// The colour that a variable of the stylesheet stands for now: color("--accent") is "rgb(…)".
export function color(variable) {
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(${variable})`;
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}
