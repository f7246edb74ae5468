// Consume: datasets, what their versions differ in, and the batches that a trainer would get.
import { html } from "../lib/html.js";
import { Choice } from "../lib/panel.js";
import { style } from "../lib/style.js";
import { Compare } from "./consume/compare.js";
import { Create } from "./consume/create.js";
import { Dataset } from "./consume/dataset.js";
import { Datasets } from "./consume/datasets.js";
import { Preview } from "./consume/preview.js";

await style("css/consume.css");

const PARTS = [
  ["datasets", "Datasets"],
  ["new", "New"],
  ["preview", "Batch preview"],
];
const SHOWN = { datasets: Datasets, new: Create, dataset: Dataset, compare: Compare, preview: Preview };

export default function Consume({ path: [named, ...rest], params, go }) {
  const part = named in SHOWN ? named : "datasets";
  const to = (name, ...more) => go(Object.fromEntries(Object.keys(params).map((key) => [key, null])), { path: name === "datasets" ? [] : [name, ...more] });
  return html`<div class="head"><h1>Consume</h1><${Choice} label="Part" value=${part === "dataset" || part === "compare" ? "datasets" : part} options=${PARTS} onChange=${to} /></div>
    <${SHOWN[part]} key=${part} rest=${rest} to=${to} params=${params} go=${go} />`;
}
