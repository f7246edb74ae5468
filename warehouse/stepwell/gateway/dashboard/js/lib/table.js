// Long lists: pages by cursor, only the rows in view in the page, sorting, and the keyboard (j, k, Enter).
//   const pages = usePages("/steps", {sort: "-finished_at", ...filters});
//   <${Table} label="Steps" columns=${COLUMNS} pages=${pages} rowKey="step_id" sort=${params.sort} onSort=${(sort) => go({sort})} onOpen=${(row) => …} />
// A column: {name, label, width, cell(row), sort: true | "its name in the API", align: "right", title(row)}.
import { cls, html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "./html.js";
import { get } from "./api.js";
import { useKeys } from "./keys.js";
import { query } from "./url.js";
import { many } from "./format.js";
import { Empty, Problem } from "./panel.js";

const ROW = 32; // pixels; the same as --row of the stylesheet
const SPARE = 12; // rows above and below what is seen
const MOST = 5000; // rows that are kept; further ones begin anew

// {rows, more(), whole, loading, error, reload(), full, next}. `next` is the cursor with which a new list would go on.
export function usePages(path, params = {}, { limit = 100, items = "items" } = {}) {
  const key = path === null ? null : `${path}?${query(params)}`;
  const [state, setState] = useState(START);
  const control = useRef(null);
  const now = useRef(state);
  now.current = state;
  const load = useCallback(async (anew) => {
    if (key === null || (!anew && control.current?.busy)) return;
    control.current?.abort();
    const mine = Object.assign(new AbortController(), { busy: true });
    control.current = mine;
    const before = anew ? { ...START, key: now.current.key, rows: now.current.rows, stale: true } : now.current;
    setState({ ...before, loading: true, error: null });
    try {
      const page = await get(path, { ...params, limit, cursor: anew ? params.cursor : before.next }, { signal: mine.signal });
      if (mine.signal.aborted) return;
      const rows = anew ? page[items] : [...before.rows, ...page[items]];
      setState({ key, rows, next: page.next, whole: !page.next, full: rows.length >= MOST, loading: false, error: null, page });
    } catch (error) {
      if (!mine.signal.aborted) setState({ ...before, ...(before.key !== key && { key, rows: [] }), loading: false, error }); // of another list nothing stays
    } finally {
      mine.busy = false;
    }
  }, [key, limit]);
  useEffect(() => (load(true), () => control.current?.abort()), [load]);
  const more = useCallback(() => {
    const { whole, loading, full, error } = now.current;
    if (!whole && !loading && !full && !error) load(false);
  }, [load]);
  return { ...state, more, reload: () => load(true), retry: () => load(now.current.stale || !now.current.next) };
}

const START = { key: null, rows: [], next: null, whole: false, full: false, loading: true, error: null, page: null, stale: false };

export function Table({ label, columns, pages, rows = pages?.rows ?? [], rowKey, sort, onSort, onOpen, empty, onSelect, height, onFull, mark }) {
  const box = useRef(null);
  const [key, setKey] = useState(null); // of the chosen row: others may come before it
  const keyOf = typeof rowKey === "function" ? rowKey : (row) => row[rowKey];
  const chosen = useMemo(() => (key === null ? -1 : rows.findIndex((row) => keyOf(row) === key)), [rows, key]);
  const seen = useWindow(box, rows.length, pages);
  const choose = (index) => {
    if (!rows.length) return;
    const to = Math.max(0, Math.min(rows.length - 1, index));
    setKey(keyOf(rows[to]));
    reveal(box.current, to);
    onSelect?.(rows[to]);
  };
  useKeys({
    j: ["next row", () => choose(chosen + 1)],
    k: ["row before", () => choose(chosen - 1)],
    ...(onOpen && { Enter: ["open the row", () => rows[chosen] && onOpen(rows[chosen])] }),
  });
  useEffect(() => {
    setKey(null);
    if (box.current) box.current.scrollTop = 0;
  }, [pages?.key]); // another list
  if (pages?.error && !rows.length) return html`<${Problem} error=${pages.error} retry=${pages.retry} />`;
  if (!rows.length) return pages?.loading ? html`<p class="wait" role="status">Asking the gateway…</p>` : html`<${Empty}>${empty || "Nothing here."}<//>`;
  const { from, to } = seen;
  return html`<div class=${cls("table", pages?.stale && pages.loading && "stale")}>
    <div class="rows" ref=${box} role="region" aria-label=${label} tabindex="0" style=${height ? { maxHeight: height } : undefined}>
      <table aria-rowcount=${pages && !pages.whole ? -1 : rows.length + 1} aria-label=${label}>
        <colgroup>${columns.map((column) => html`<col key=${column.name} style=${column.width ? { width: column.width } : undefined} />`)}</colgroup>
        <thead><tr aria-rowindex="1">${columns.map((column) => html`<${Head} key=${column.name} column=${column} sort=${sort} onSort=${onSort} />`)}</tr></thead>
        <tbody>
          ${from > 0 && html`<tr key="above" class="gap" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${from * ROW}px` }} /></tr>`}
          ${rows.slice(from, to).map((row, at) => html`<${Row} key=${keyOf(row)} row=${row} index=${from + at} columns=${columns}
            chosen=${from + at === chosen} mark=${mark?.(row)} open=${onOpen} choose=${choose} />`)}
          ${to < rows.length && html`<tr key="below" class="gap" aria-hidden="true"><td colspan=${columns.length} style=${{ height: `${(rows.length - to) * ROW}px` }} /></tr>`}
        </tbody>
      </table>
    </div>
    ${pages && html`<${Foot} pages=${pages} rows=${rows} onFull=${onFull} />`}
  </div>`;
}

function Head({ column, sort, onSort }) {
  const name = column.sort === true ? column.name : column.sort;
  const direction = !name ? null : sort === name ? "ascending" : sort === `-${name}` ? "descending" : "none";
  const next = direction === "descending" ? name : `-${name}`; // the highest first: that is what one looks for
  return html`<th scope="col" class=${column.align === "right" ? "right" : ""} aria-sort=${direction ?? undefined}>
    ${name && onSort
      ? html`<button type="button" class="sort" onClick=${() => onSort(next)}>${column.label}<i aria-hidden="true">${{ ascending: "↑", descending: "↓", none: "" }[direction]}</i></button>`
      : column.label}
  </th>`;
}

function Row({ row, index, columns, chosen, mark, open, choose }) {
  const click = (event) => {
    choose(index);
    if (open && !event.target.closest("a, button, input, label") && !String(getSelection())) open(row);
  };
  return html`<tr class=${cls(chosen && "chosen", open && "opens", mark)} aria-rowindex=${index + 2} aria-selected=${chosen ? "true" : undefined} onClick=${click}>
    ${columns.map((column) => html`<td key=${column.name} class=${cls(column.align === "right" && "right", column.class)} title=${column.title?.(row)}>${column.cell(row)}</td>`)}
  </tr>`;
}

function Foot({ pages, rows, onFull }) {
  return html`<div class="foot">
    <span aria-live="polite">${many(rows.length, "row")}${pages.whole ? "" : " so far"}${pages.loading ? ", asking for more…" : ""}</span>
    ${pages.error && html`<${Problem} error=${pages.error} retry=${pages.retry} />`}
    ${!pages.whole && !pages.loading && !pages.full && html`<button type="button" class="small" onClick=${pages.more}>More</button>`}
    ${pages.full && !pages.whole && onFull && html`<button type="button" class="small" onClick=${() => onFull(pages.next)}>Go on from here</button>`}
  </div>`;
}

// Which rows are to be in the page, by where it is scrolled to; near the end, the next page is asked for.
function useWindow(box, count, pages) {
  const [view, setView] = useState({ top: 0, height: 800 });
  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    let frame = 0;
    const look = () => {
      frame = 0;
      setView((old) => {
        const next = { top: Math.floor(element.scrollTop / ROW), height: element.clientHeight };
        return next.top === old.top && next.height === old.height ? old : next;
      });
    };
    const soon = () => (frame ||= requestAnimationFrame(look));
    element.addEventListener("scroll", soon, { passive: true });
    const sizes = new ResizeObserver(soon);
    sizes.observe(element);
    return () => (element.removeEventListener("scroll", soon), sizes.disconnect(), cancelAnimationFrame(frame));
  }, [count > 0]);
  const range = useMemo(() => {
    const from = Math.min(Math.max(0, view.top - SPARE), Math.max(0, count - 1));
    return { from, to: Math.min(count, view.top + Math.ceil(view.height / ROW) + SPARE) };
  }, [view, count]);
  useEffect(() => {
    if (count && view.top > 0 && range.to >= count) pages?.more();
  }, [range, count]);
  return range;
}

function reveal(element, index) {
  if (!element) return;
  const head = element.querySelector("thead")?.offsetHeight ?? 0;
  const top = index * ROW;
  if (top < element.scrollTop) element.scrollTop = top;
  else if (top + ROW + head > element.scrollTop + element.clientHeight) element.scrollTop = top + ROW + head - element.clientHeight;
}
