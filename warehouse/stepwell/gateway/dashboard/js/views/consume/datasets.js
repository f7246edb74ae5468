// Every dataset, by its newest version.
import { html } from "../../lib/html.js";
import { Asked, Badge } from "../../lib/panel.js";
import { Search } from "../../lib/filters.js";
import { Table } from "../../lib/table.js";
import { ago, int, line, time } from "../../lib/format.js";
import { href, visit } from "../../lib/url.js";
import { useApi } from "../../lib/api.js";

const COLUMNS = [
  { name: "name", label: "Dataset", width: "200px", cell: (row) => html`<b>${line(row.name, 60)}</b> <span class="dim">@${row.version}</span>`, title: (row) => line(row.name, 400) },
  { name: "versions", label: "Versions", align: "right", width: "84px", cell: (row) => int(row.versions.length) },
  { name: "steps", label: "Steps", align: "right", width: "90px", cell: (row) => int(row.steps) },
  { name: "filter", label: "Selected by", class: "mono", cell: (row) => line(row.filter, 160), title: (row) => line(row.filter, 1000) },
  { name: "note", label: "Note", width: "22%", cell: (row) => line(row.note ?? "", 160), title: (row) => line(row.note, 1000) },
  { name: "commit", label: "Commit", align: "right", width: "80px", cell: (row) => int(row.at_commit) },
  { name: "pinned", label: "Pinned", width: "84px", cell: (row) => row.pinned && html`<${Badge} tone="accent">pinned<//>` },
  { name: "created_at", label: "Made", width: "116px", cell: (row) => ago(row.created_at), title: (row) => time(row.created_at) },
];

export function Datasets({ params, go }) {
  const asked = useApi("/datasets");
  return html`<${Asked} of=${asked} empty=${[(said) => !said.items.length, html`<p>No dataset yet. A dataset is a selection of steps that never changes, with the rewards and labels they had.</p><a href=${href("consume", ["new"])}>Make one</a>`]}>
    ${({ items }) => {
      const rows = newest(items).filter((row) => has(row, params.q));
      return html`<div class="filters"><${Search} value=${params.q ?? ""} label="Search names, notes, conditions" onChange=${(q) => go({ q }, { replace: true })} />
          <span class="dim" data-figure="datasets">${int(rows.length)} ${rows.length === 1 ? "dataset" : "datasets"}, ${int(rows.reduce((sum, row) => sum + row.versions.length, 0))} versions</span></div>
        <${Table} label="Datasets" columns=${COLUMNS} rows=${rows} rowKey="name" onOpen=${(row) => visit(href("consume", ["dataset", row.name]))} empty="No dataset is called so." />`;
    }}
  <//>`;
}

// One row per name: its newest version, with the numbers of all. The latest made come first.
export function newest(items) {
  const found = new Map();
  for (const item of items) {
    const before = found.get(item.name)?.versions ?? [];
    found.set(item.name, { ...item, versions: [...before, item.version] });
  }
  return [...found.values()].sort((a, b) => (a.created_at < b.created_at ? 1 : -1));
}

const has = (row, q) => !q || [row.name, row.note, row.filter].some((words) => words?.toLowerCase().includes(q.trim().toLowerCase()));
