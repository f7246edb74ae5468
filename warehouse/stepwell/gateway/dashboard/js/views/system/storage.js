// What every table takes, and what keeps old versions of it.
import { html } from "../../lib/html.js";
import { Badge, Bars, Empty, Panel, Stat } from "../../lib/panel.js";
import { bytes, inert, int, line, num } from "../../lib/format.js";
import { href } from "../../lib/url.js";
import { useApi } from "../../lib/api.js";
import { Plain } from "./plain.js";

const COLUMNS = [
  { label: "Table", mono: true, cell: (one) => inert(one.table) },
  { label: "Bytes", right: true, cell: (one) => html`<span title=${`${int(one.bytes)} bytes`}>${bytes(one.bytes)}</span>` },
  { label: "Rows", right: true, cell: (one) => int(one.rows) },
  { label: "Bytes a row", right: true, cell: (one) => (one.rows ? bytes(one.bytes / one.rows) : "") },
  { label: "Fragments", right: true, cell: (one) => int(one.fragments) },
  { label: "Versions kept", right: true, cell: (one) => int(one.versions) },
  { label: "Version", right: true, cell: (one) => int(one.version) },
  { label: "Indices", cell: (one) => (Array.isArray(one.indices) ? one.indices.map((name) => html`<${Badge} key=${JSON.stringify(name)}>${line(typeof name === "object" ? name.name : name, 40)}<//> `) : int(one.indices)) },
  { label: "Pinned by", cell: (one) => html`<${Pins} pins=${one.pins} labels=${one.labels} />` },
];

export function Storage({ system: { storage, software } }) {
  const datasets = useApi("/datasets");
  const labels = new Map((datasets.data?.items ?? []).map(({ name, version }) => [`stepwell-${name}-v${version}`, `${name}@${version}`]));
  const tables = storage.tables.map((one) => ({ ...one, labels }));
  if (storage.problem) return html`<${Panel} title="Storage"><${Empty}>${inert(storage.problem)}<//><//>`;
  const pins = tables.reduce((sum, one) => sum + one.pins.length, 0);
  const sum = (name) => tables.reduce((total, one) => total + (one[name] ?? 0), 0);
  const sizes = tables.map((one) => ({ key: one.table, label: one.table, value: one.bytes })).sort((a, b) => b.value - a.value);
  return html`<div class="stats">
      <${Stat} label="Stored" value=${bytes(storage.bytes)} title=${int(storage.bytes)} detail=${`${int(storage.bytes)} bytes in ${int(tables.length)} tables`} />
      <${Stat} label="Rows" value=${num(sum("rows"))} title=${int(sum("rows"))} detail="of all tables" />
      <${Stat} label="Versions kept" value=${int(sum("versions"))} detail="of all tables; maintenance drops old ones" />
      <${Stat} label="Pins" value=${int(pins)} detail=${pins ? "they keep old files" : "nothing keeps old files"} />
    </div>
    <${Panel} title="Tables"><${Plain} label="Tables" columns=${COLUMNS} rows=${tables} keyOf=${(one) => one.table} /><//>
    <div class="columns">
      <${Panel} title="Bytes by table"><${Bars} label="Bytes by table" rows=${sizes} most=${12} /><//>
      <${Panel} title="Software"><${Plain} label="Software" columns=${[{ label: "Package", cell: ([name]) => inert(name) }, { label: "Version", mono: true, cell: ([, version]) => inert(version) }]} rows=${Object.entries(software)} keyOf=${([name]) => name} /><//>
    </div>`;
}

// A tag that a dataset has set leads to it.
function Pins({ pins, labels }) {
  if (!pins.length) return html`<span class="dim">nothing</span>`;
  return pins.map(({ tag, version }) => html`<span key=${tag} class="pin">${labels.has(tag) ? html`<a href=${href("consume", ["dataset", labels.get(tag)])}>${line(labels.get(tag), 60)}</a>`
    : html`<span class="mono">${line(tag, 60)}</span>`} <span class="dim">at ${int(version)}</span></span> `);
}
