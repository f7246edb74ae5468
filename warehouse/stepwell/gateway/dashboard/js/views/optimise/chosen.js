// Which steps are looked at: one of four ways to say it, in the address.
import { html, useEffect, useState } from "../../lib/html.js";
import { line } from "../../lib/format.js";
import { useApi } from "../../lib/api.js";

const WAYS = [["group_id", "prompt group"], ["dataset", "dataset"], ["trajectory_id", "trajectory"], ["where", "condition"]];
const MOST = 50; // names that are offered

// {group_id: …} and the like, or null where nothing is chosen.
export function selectionOf(params) {
  const way = WAYS.find(([name]) => params[name]);
  return way ? { [way[0]]: params[way[0]] } : null;
}

// The same as members of POST /batches/preview, which takes a dataset or a condition.
export function asSelection(chosen) {
  const [[name, value]] = Object.entries(chosen);
  return name === "dataset" || name === "where" ? chosen : { where: `${name} = '${value.replaceAll("'", "''")}'` };
}

export function Chosen({ params, go }) {
  const given = WAYS.find(([name]) => params[name])?.[0] ?? "group_id";
  const [way, setWay] = useState(given);
  useEffect(() => setWay(given), [given]);
  const groups = useApi(way === "group_id" ? "/groups" : null, { sort: "-steps", limit: MOST });
  const datasets = useApi(way === "dataset" ? "/datasets" : null);
  const names = way === "group_id" ? (groups.data?.items ?? []).map((one) => one.group_id) : way === "dataset" ? (datasets.data?.items ?? []).map((one) => `${one.name}@${one.version}`) : [];
  const show = (value) => go({ ...Object.fromEntries(WAYS.map(([name]) => [name, null])), [way]: value || null, node: null, at: null, of: null });
  const submit = (event) => (event.preventDefault(), show(new FormData(event.target).get("value").trim()));
  return html`<form class="choosing" onSubmit=${submit} key=${way + (params[way] ?? "")}>
    <select aria-label="What to look at" value=${way} onChange=${(event) => setWay(event.target.value)}>${WAYS.map(([name, words]) => html`<option key=${name} value=${name}>${words}</option>`)}</select>
    <input name="value" aria-label=${WAYS.find(([name]) => name === way)[1]} class="mono" defaultValue=${params[way] ?? ""} list="optimise-names" required maxlength="10000" placeholder=${way === "where" ? "policy_version = 3" : names[0] ?? ""} />
    <datalist id="optimise-names">${names.map((name) => html`<option key=${name} value=${name} />`)}</datalist>
    <button type="submit" class="primary">Show</button>
    ${!params[way] && names.slice(0, 6).map((name) => html`<button key=${name} type="button" class="small" onClick=${() => show(name)}>${line(name, 40)}</button>`)}
  </form>`;
}
