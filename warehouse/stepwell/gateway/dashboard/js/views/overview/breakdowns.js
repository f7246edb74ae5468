// What the steps are of: each bar leads to the steps behind it.
import { html } from "../../lib/html.js";
import { Bars, Empty, Panel } from "../../lib/panel.js";
import { line } from "../../lib/format.js";
import { href } from "../../lib/url.js";

const BY = [
  ["source", "By source", (value) => ({ source: value })],
  ["agent", "By agent", (value) => ({ agent: value })],
  ["model", "By model", (value) => ({ model: value })],
  ["policy_version", "By policy version", (value, row) => ({ policy: row.policy, policy_version_min: value, policy_version_max: value })],
  ["status", "By status", (value) => ({ status: value })],
];

export function Breakdowns({ stats }) {
  return html`<div class="columns">
    ${BY.map(([name, title, filter]) => {
      const said = stats.steps[`by_${name}`];
      return html`<${Panel} key=${name} title=${title}>
        ${!said ? html`<${Empty}>This gateway does not count it.<//>` : !said.length ? html`<${Empty}>No steps yet.<//>` : html`<${Bars} label=${title} rows=${said.map((row) => bar(row, name, filter))} />`}
      <//>`;
    })}
  </div>`;
}

function bar(row, name, filter) {
  const value = row[name];
  const known = value !== null && value !== undefined;
  return {
    key: `${row.policy} ${value}`,
    label: known ? line(row.policy ? `${row.policy} ${value}` : String(value), 80) : "not known",
    value: row.steps,
    href: known ? href("trajectories", [], filter(value, row)) : undefined,
  };
}
