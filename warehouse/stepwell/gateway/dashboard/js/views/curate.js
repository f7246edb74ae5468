// Curate: choose steps, say what they are worth, and take it back where it was wrong.
import { html } from "../lib/html.js";
import { Choice } from "../lib/panel.js";
import { style } from "../lib/style.js";
import { filterOf } from "../lib/steps.js";
import { Author } from "./curate/author.js";
import { Done } from "./curate/done.js";
import { Groups } from "./curate/groups.js";
import { OneStep } from "./curate/one_step.js";
import { Pairs } from "./curate/pairs.js";
import { Queue } from "./curate/queue.js";
import { Steps } from "./curate/steps.js";

await style("css/curate.css");

const PARTS = [
  ["steps", "Steps"],
  ["queue", "Queue"],
  ["pairs", "Compare"],
  ["groups", "Groups"],
  ["done", "Done"],
];
const SHOWN = { steps: Steps, queue: Queue, pairs: Pairs, groups: Groups, done: Done, step: OneStep };

export default function Curate({ path: [named, ...rest], params, go }) {
  const part = named in SHOWN ? named : "steps";
  // The filter goes along from part to part: what is listed is what is queued.
  const to = (name) => go(Object.fromEntries(Object.keys(params).filter((key) => !(key in filterOf(params))).map((key) => [key, null])), { path: name === "steps" ? [] : [name] });
  return html`<div class="head"><h1>Curate</h1>
      <${Choice} label="Part" value=${part === "step" ? "steps" : part} options=${PARTS} onChange=${to} />
      <div class="tools"><${Author} /></div>
    </div>
    <${SHOWN[part]} rest=${rest} to=${to} params=${params} go=${go} />`;
}
