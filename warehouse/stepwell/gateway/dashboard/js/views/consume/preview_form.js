// The settings of a reader, as fields of the address.
import { html, useRef } from "../../lib/html.js";
import { Panel } from "../../lib/panel.js";
import { line } from "../../lib/format.js";
import { newest } from "./datasets.js";

const USUAL = "trainable AND split = 'train' AND NOT side";
const select = (name, label, options, hint) => ({ name, label, options: options.map((one) => (Array.isArray(one) ? one : [one, one])), hint });
const whole = (name, label, usual, hint) => ({ name, label, usual, kind: "number", hint });

const FIELDS = [
  select("advantage", "Advantages", ["grpo", "rloo", "reinforce", "reinforce++", "reinforce++-baseline", "step", "none"]),
  select("loss", "Loss", ["token-mean", "sequence-mean", "trajectory-mean"]),
  select("merge", "Merge", [["tree", "prefix trees"], ["trajectory", "within trajectories"], ["none", "nothing"]]),
  whole("max_tokens", "Tokens per pack", 65536),
  whole("ranks", "Ranks", 1),
  whole("groups_per_step", "Groups per step", "", "all"),
  whole("max_length", "Longest step", "", "any"),
  whole("seed", "Seed", 0),
  select("on_drift", "Where ids drift", [["fork", "fork"], ["realign", "realign"], ["drop", "drop"]]),
  select("adapter", "For the trainer", [["", "any"], "verl", "slime", "skyrl", "trl-grpo", "trl-async", "trl-sft", "areal", "prime-rl", "tinker"]),
];
const FLAGS = [
  ["unended", "trajectories that have not ended, too"],
  ["derived", "ids made from text, too"],
];
const FIRST = Object.fromEntries(FIELDS.map(({ name, options, usual }) => [name, String(options ? options[0][0] : usual)]));

// The body of POST /batches/preview, or null where nothing is chosen. What is not said is the reader's default.
export function bodyOf(params) {
  if (!params.dataset && !params.where) return null;
  const body = params.dataset ? { dataset: params.dataset } : { where: params.where };
  for (const { name, kind } of FIELDS) if (params[name]) body[name] = kind === "number" ? Number(params[name]) : params[name];
  for (const [name] of FLAGS) if (params[name] === "true") body[name] = true;
  return body;
}

export function Form({ params, go, datasets, busy }) {
  const form = useRef(null);
  const labels = newest(datasets).flatMap(({ name, versions }) => [...versions].reverse().map((version) => `${name}@${version}`));
  if (params.dataset && !labels.includes(params.dataset)) labels.unshift(params.dataset);
  const submit = (event) => {
    event.preventDefault();
    const said = Object.fromEntries(new FormData(form.current));
    const changes = Object.fromEntries(FIELDS.map(({ name }) => [name, said[name] === FIRST[name] ? null : said[name]]));
    for (const [name] of FLAGS) changes[name] = said[name] === "on" ? "true" : null;
    const by = said.dataset ? { dataset: said.dataset, where: null } : { dataset: null, where: (said.where ?? "").trim() || null };
    go({ ...changes, ...by });
  };
  const chosen = params.dataset ?? "";
  // What is typed stays while the page is rendered again; where the address says something else, the form is another one.
  return html`<${Panel} title="Settings of the reader">
    <form ref=${form} key=${JSON.stringify(params)} class="settings" onSubmit=${submit}>
      <label class="wide">Steps <select name="dataset" onChange=${(event) => (form.current.querySelector(".condition").hidden = Boolean(event.target.value))}>
        <option value="" selected=${!chosen}>by a condition</option>
        ${labels.map((label) => html`<option key=${label} value=${label} selected=${label === chosen}>${line(label, 80)}</option>`)}</select></label>
      <label class="wide condition" hidden=${Boolean(chosen)}>Condition <input name="where" class="mono" maxlength="10000" defaultValue=${params.where ?? USUAL} /></label>
      ${FIELDS.map(({ name, label, options, hint }) => html`<label key=${name}>${label}
        ${options ? html`<select name=${name}>${options.map(([value, words]) => html`<option key=${value} value=${value} selected=${value === (params[name] ?? FIRST[name])}>${words}</option>`)}</select>`
          : html`<input name=${name} type="number" min=${name === "seed" ? 0 : 1} step="1" defaultValue=${params[name] ?? FIRST[name]} placeholder=${hint} />`}</label>`)}
      ${FLAGS.map(([name, words]) => html`<label key=${name} class="tick"><input type="checkbox" name=${name} defaultChecked=${params[name] === "true"} /> ${words}</label>`)}
      <button type="submit" class="primary" disabled=${busy}>${busy ? "Planning…" : "Preview"}</button>
    </form>
  <//>`;
}
