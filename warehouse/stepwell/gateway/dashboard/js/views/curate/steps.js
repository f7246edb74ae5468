// The steps that a filter means; some or all of them chosen, and judged at once.
import { html, useEffect, useMemo, useRef, useState } from "../../lib/html.js";
import { Problem } from "../../lib/panel.js";
import { Filters } from "../../lib/filters.js";
import { Table, usePages } from "../../lib/table.js";
import { FIELDS, filterBody, filterOf } from "../../lib/steps.js";
import { href, visit } from "../../lib/url.js";
import { int } from "../../lib/format.js";
import { useApi } from "../../lib/api.js";
import { useKeys } from "../../lib/keys.js";
import { Bulk } from "./bulk.js";
import { COLUMNS } from "./columns.js";
import { SavedViews } from "./saved.js";

export function Steps({ params, go }) {
  const filter = filterOf(params);
  const key = JSON.stringify(filter);
  const pages = usePages("/steps", { ...filter, sort: params.sort ?? "-commit", cursor: params.cursor });
  const counted = useApi("/steps", { ...filter, count: true, limit: 1 });
  const chosen = useChosen(pages.rows, key);
  const count = counted.stale ? null : counted.data?.count; // of this filter, not of the one before
  const again = () => (pages.reload(), counted.reload());
  useKeys({
    x: ["choose the row, or not", () => chosen.current && chosen.toggle(chosen.current.step_id)],
    X: ["choose all rows that are here, or none", () => chosen.toggleLoaded()],
    Escape: ["choose none", () => chosen.clear()],
  });
  const columns = useMemo(() => [box(chosen, pages.rows), ...COLUMNS], [chosen.ids, chosen.all, pages.rows]);
  return html`<${SavedViews} view="curate" params=${{ ...filter, sort: params.sort }} go=${go} />
    <${Filters} fields=${FIELDS} params=${params} go=${go} search="Search in what was said">
      <span class="dim" data-figure="count" aria-live="polite">${count ? `${count.exact ? "" : "at least "}${int(count.count)} steps` : ""}</span>
      <a class="after" href=${href("consume", ["new"], filter)}>Make a dataset of these</a>
    <//>
    ${counted.error && pages.rows.length > 0 && html`<${Problem} error=${counted.error} />`}
    <${Bulk} chosen=${chosen} count=${count} body=${filterBody(params)} rows=${pages.rows} again=${again} />
    <${Table} label="Steps to curate" columns=${columns} pages=${pages} rowKey="step_id" sort=${params.sort} onSort=${(sort) => go({ sort, cursor: null })}
      onOpen=${(step) => visit(href("curate", ["step", step.step_id], params))} onSelect=${(step) => (chosen.current = step)}
      onFull=${(cursor) => go({ cursor })} mark=${(step) => chosen.has(step.step_id) && "picked"}
      empty=${key === "{}" ? "No steps yet." : html`No step is like this. <button type="button" class="small" onClick=${() => go(nothing(filter))}>Show all steps</button>`} />`;
}

const nothing = (filter) => Object.fromEntries(Object.keys(filter).map((name) => [name, null]));

// A box that was ticked with the mouse leaves the keys to the list.
const free = (event) => event.detail > 0 && event.currentTarget.blur();

function box(chosen, rows) {
  const some = chosen.size > 0;
  const whole = rows.length > 0 && rows.every((row) => chosen.has(row.step_id));
  return {
    name: "chosen",
    width: "36px",
    label: html`<input type="checkbox" aria-label="Choose all rows that are here" checked=${whole} ref=${(input) => input && (input.indeterminate = some && !whole)} onClick=${free} onChange=${() => chosen.toggleLoaded()} />`,
    cell: (step) => html`<input type="checkbox" aria-label=${`Choose ${step.step_id}`} checked=${chosen.has(step.step_id)} onClick=${(event) => (free(event), chosen.toggle(step.step_id, event.shiftKey))} />`,
  };
}

// What is chosen: steps by id, or (`all`) whatever the filter means. Another filter, and nothing is.
function useChosen(rows, key) {
  const [state, setState] = useState({ ids: new Set(), all: false });
  const held = useRef({});
  Object.assign(held.current, { rows, state });
  useEffect(() => setState({ ids: new Set(), all: false }), [key]);
  return useMemo(() => {
    const put = (ids, all = false) => setState((held.current.state = { ids, all }));
    const here = () => held.current.rows.map((row) => row.step_id);
    return {
      get ids() { return held.current.state.ids; },
      get all() { return held.current.state.all; },
      get size() { return held.current.state.ids.size; },
      current: null,
      has: (id) => held.current.state.all || held.current.state.ids.has(id),
      clear: () => put(new Set()),
      everything: () => put(new Set(), true),
      toggle(id, range = false) {
        const { ids, all } = held.current.state;
        const next = new Set(all ? here() : ids);
        const on = !next.has(id);
        for (const one of range && held.last ? between(here(), held.last, id) : [id]) on ? next.add(one) : next.delete(one);
        held.last = id;
        put(next);
      },
      toggleLoaded() {
        const { ids, all } = held.current.state;
        put(all || here().every((id) => ids.has(id)) ? new Set() : new Set(here()));
      },
    };
  }, []);
}

function between(ids, from, to) {
  const [a, b] = [ids.indexOf(from), ids.indexOf(to)].sort((x, y) => x - y);
  return a < 0 ? [to] : ids.slice(a, b + 1);
}

