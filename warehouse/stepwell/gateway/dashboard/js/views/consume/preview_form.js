// The settings of a reader, as fields of the address.
import { html, useRef } from "../../lib/html.js";
import { Panel } from "../../lib/panel.js";
import { line } from "../../lib/format.js";
import { FIELDS, FIRST, FLAGS } from "../../lib/reader.js";
import { newest } from "./datasets.js";

const USUAL = "trainable AND split = 'train' AND NOT side";

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
