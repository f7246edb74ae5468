// Two versions of a dataset: which steps came, went, or have other rewards, labels or groups.
import { html } from "../../lib/html.js";
import { Asked, Badge, Panel, Stat } from "../../lib/panel.js";
import { Table } from "../../lib/table.js";
import { Text } from "../../lib/text.js";
import { at, useApi } from "../../lib/api.js";
import { NONE, id, inert, int, line, signed } from "../../lib/format.js";
import { href, visit } from "../../lib/url.js";

const TONES = { added: "good", removed: "bad", changed: "warn" };

const COLUMNS = [
  { name: "change", label: "Change", width: "100px", cell: (row) => html`<${Badge} tone=${TONES[row.change]}>${row.change}<//>` },
  { name: "step_id", label: "Step", class: "mono", width: "26%", cell: (row) => id(row.step_id, 36), title: (row) => line(row.step_id, 400) },
  { name: "trajectory_id", label: "Trajectory", class: "mono", width: "22%", cell: (row) => id(row.trajectory_id, 30), title: (row) => line(row.trajectory_id, 400) },
  { name: "what", label: "What", cell: (row) => differences(row), title: (row) => differences(row) },
];

export function Compare({ rest: [name], params, go }) {
  const versions = useApi(name ? at`/datasets/${name}` : null);
  const { a, b, change, skip } = params;
  const asked = useApi(name && a && b ? at`/datasets/${name}/diff` : null, { a, b, change, skip });
  const pick = (which) => html`<label>${which === "a" ? "from" : "to"} version <select value=${params[which] ?? ""} onChange=${(event) => go({ [which]: event.target.value, skip: null })}>
    <option value="">choose…</option>${(versions.data?.versions ?? []).map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>`;
  const only = (kind) => href("consume", ["compare", name], { a, b, change: change === kind ? null : kind });
  return html`<p><a href=${href("consume", ["dataset", name ?? ""])}>← ${line(name, 80)}</a></p>
    <div class="dataset-head"><h2>${line(name, 120)}</h2>${pick("a")}${pick("b")}</div>
    ${a && b && html`<${Asked} of=${asked.stale ? { ...asked, data: null } : asked}>${(diff) => html`
      <div class="stats">${["added", "removed", "changed"].map((kind) => html`<${Stat} key=${kind} label=${`${kind[0].toUpperCase()}${kind.slice(1)}`} value=${int(diff[kind])}
        detail=${kind === "changed" ? columns(diff.columns) : change === kind ? "only these are listed" : "steps"} href=${only(kind)} />`)}</div>
      <${Filters} filters=${diff.filters} a=${diff.a} b=${diff.b} />
      <${Table} label="What changed" columns=${COLUMNS} rows=${diff.items} rowKey="step_id" onOpen=${(row) => visit(href("curate", ["step", row.step_id]))}
        empty=${change ? `No step was ${change}.` : "The two are equal: the same steps with the same rewards and labels."} />
      ${(skip || diff.next_skip !== null) && html`<p>${skip && html`<a href=${href("consume", ["compare", name], { a, b, change })}>the first ones</a> `}${diff.next_skip !== null && html`<a href=${href("consume", ["compare", name], { a, b, change, skip: diff.next_skip })}>further ones</a>`}</p>`}`}<//>`}`;
}

function Filters({ filters, a, b }) {
  if (filters.a === filters.b) return html`<p class="dim">Both were selected by <code>${line(filters.a, 400)}</code></p>`;
  return html`<div class="columns">${[[a, filters.a], [b, filters.b]].map(([version, said]) => html`<${Panel} key=${version} title=${`Version ${version} was selected by`}><${Text} text=${said} label="condition" first=${600} /><//>`)}</div>`;
}

const columns = (counts) => Object.entries(counts ?? {}).map(([name, count]) => `${words(name)} ${int(count)}`).join(", ") || "other values";
const words = (name) => inert(name.replaceAll("_", " "));

// "trajectory reward 0 → 1"; of columns whose values are not told, the name.
function differences(row) {
  return row.columns.map((name) => (`${name}_before` in row ? `${words(name)} ${said(row[`${name}_before`])} → ${said(row[`${name}_after`])}` : words(name))).join(", ");
}

const said = (value) => (value === null || value === undefined ? NONE : typeof value === "number" ? signed(value) : Array.isArray(value) ? `[${value.map((one) => line(String(one), 40)).join(", ")}]` : line(String(value), 60));
