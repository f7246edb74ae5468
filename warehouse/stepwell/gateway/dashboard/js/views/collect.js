// Collect: what comes in right now, who brings it, and what could not be parsed.
import { html } from "../lib/html.js";
import { Choice } from "../lib/panel.js";
import { style } from "../lib/style.js";
import { Producers } from "./collect/producers.js";
import { Quarantine } from "./collect/quarantine.js";
import { Tail } from "./collect/tail.js";

await style("css/collect.css");

const PARTS = [
  ["tail", "Live"],
  ["producers", "Producers"],
  ["quarantine", "Quarantine"],
];
const SHOWN = { tail: Tail, producers: Producers, quarantine: Quarantine };

export default function Collect({ path: [named, ...rest], params, go }) {
  const part = named in SHOWN ? named : "tail";
  const to = (...place) => go({}, { path: place });
  return html`<div class="head"><h1>Collect</h1><${Choice} label="Part" value=${part} options=${PARTS} onChange=${(name) => go({ q: null, show: null }, { path: name === "tail" ? [] : [name] })} /></div>
    <${SHOWN[part]} rest=${rest} to=${to} params=${params} go=${go} />`;
}
