// The lists of trajectories and of steps: filters, order, how many there are, pages.
import { html, useMemo } from "../../lib/html.js";
import { Choice } from "../../lib/panel.js";
import { Filters } from "../../lib/filters.js";
import { Table, usePages } from "../../lib/table.js";
import { useApi } from "../../lib/api.js";
import { href, visit } from "../../lib/url.js";
import { int, time } from "../../lib/format.js";
import { FIELDS, ONLY, asked, listOf } from "./fields.js";
import { STEPS, TRAJECTORIES } from "./columns.js";

const ONE = { trajectories: "trajectory", steps: "step" };
const KINDS = [["trajectories", "trajectories"], ["steps", "steps"]];
// Orders are always named: they are the listing's then, which is as fast between two compactions as after one.
const LIST = {
  trajectories: { columns: TRAJECTORIES, key: "trajectory_id", sort: "-last_at", open: (row) => href("trajectories", [row.trajectory_id]) },
  steps: { columns: STEPS, key: "step_id", sort: "-commit", open: (row) => href("trajectories", row.trajectory_id === null ? [] : [row.trajectory_id], { step: row.step_id }) },
};

let last = "#/trajectories";
export const lastList = () => last; // where one came from, for going back to it

export function List({ params, go }) {
  const of = listOf(params);
  const { columns, key, sort, open } = LIST[of];
  last = href("trajectories", [], params);
  const filters = useMemo(() => asked(of, params), [of, JSON.stringify(params)]);
  const order = params.sort && columns.some((one) => (one.sort === true ? one.name : one.sort) === params.sort?.replace(/^-/, "")) ? params.sort : sort;
  const pages = usePages(`/${of}`, { ...filters, sort: order, cursor: params.cursor });
  const change = (to) => go({ of: to, sort: null, cursor: null, ...Object.fromEntries(ONLY[of].map((name) => [name, null])) });
  return html`<div class="head"><h1>Trajectories</h1><${Count} of=${of} filters=${filters} />
      <div class="tools"><${Choice} label="List" value=${of} options=${KINDS} onChange=${change} /></div></div>
    <section class="panel lists" aria-label="List">
      <${Filters} fields=${FIELDS[of]} params=${params} go=${go} search="Search messages, answers, ids" />
      ${params.cursor && html`<p class="dim">This list begins in the middle. <button type="button" class="small" onClick=${() => go({ cursor: null })}>From the beginning</button></p>`}
      <${Table} key=${of} label=${of === "steps" ? "Steps" : "Trajectories"} columns=${columns} pages=${pages} rowKey=${key} sort=${order} onSort=${(to) => go({ sort: to, cursor: null })}
        onOpen=${(row) => visit(open(row))} onFull=${(cursor) => go({ cursor })} empty=${nothing(of, filters)} />
    </section>`;
}

const nothing = (of, filters) => (Object.values(filters).some(Boolean) ? `No ${of} with these filters.` : `No ${of} yet. Run an agent: stepwell run -- python agent.py`);

// How many there are comes on its own, so that the rows wait for nothing.
function Count({ of, filters }) {
  const found = useApi(`/${of}`, { ...filters, limit: 1, count: true });
  const count = found.data?.count;
  if (!count || found.stale) return html`<span class="dim" role="status">${found.error ? "" : "counting…"}</span>`;
  return html`<span class="dim" role="status" data-figure="count" title=${`counted ${time(count.at)}`}>${count.exact ? "" : "at least "}${int(count.count)} ${count.count === 1 ? ONE[of] : of}</span>`;
}
