// The settings in force, one line each. What may be a secret is not told by the gateway.
import { html } from "../../lib/html.js";
import { Panel } from "../../lib/panel.js";
import { Search } from "../../lib/filters.js";
import { inert, int, line } from "../../lib/format.js";
import { Plain } from "./plain.js";

const MASK = "…";
const COLUMNS = [
  { label: "Setting", mono: true, cell: ([name]) => inert(name) },
  { label: "Value", mono: true, cell: ([, value]) => html`<${Value} value=${value} />` },
];

function Value({ value }) {
  if (value === MASK) return html`<span class="dim">not shown</span>`;
  if (value === null || value === "" || (typeof value === "object" && !Object.keys(value).length)) return html`<span class="dim">none</span>`;
  return typeof value === "string" ? line(value, 400) : line(JSON.stringify(value), 400);
}

export function Settings({ system: { settings }, params, go }) {
  const wanted = (params.q ?? "").trim().toLowerCase();
  const all = flat(settings);
  const rows = all.filter(([name, value]) => !wanted || name.toLowerCase().includes(wanted) || JSON.stringify(value).toLowerCase().includes(wanted));
  return html`<${Panel} title="Settings in force" hint="from stepwell.toml, the environment, and defaults">
    <div class="filters"><${Search} value=${params.q ?? ""} label="Search settings" onChange=${(q) => go({ q }, { replace: true })} /><span class="dim" data-figure="settings">${int(rows.length)} of ${int(all.length)}</span></div>
    <${Plain} label="Settings" columns=${COLUMNS} rows=${rows} keyOf=${([name]) => name} />
  <//>`;
}

// {gateway: {port: 1}} as [["gateway.port", 1]]; lists stay whole.
function flat(value, path = "") {
  if (value === null || typeof value !== "object" || Array.isArray(value) || !Object.keys(value).length) return [[path, value]];
  return Object.entries(value).flatMap(([name, one]) => flat(one, path ? `${path}.${name}` : name));
}
