// What waits for a judgement, from the gateway, a few at a time. What was answered or skipped here is passed over at once, though the
// gateway may not know it yet.
import { useCallback, useEffect, useRef, useState } from "../../lib/html.js";
import { get } from "../../lib/api.js";
import { int } from "../../lib/format.js";
import { query } from "../../lib/url.js";

const AHEAD = 20; // asked for at once
const FEW = 3; // with fewer at hand, more are asked for
const START = { key: null, items: [], cursor: null, whole: false, left: null, exact: true, loading: true, error: null, done: [], skipped: [] };

// {now, items, left: a number or null, exact, done: [{item, …}], skipped, …}. `keyOf` names an item; `done` and `skipped` are of this visit.
export function useWaiting(path, params, keyOf) {
  const key = query(params);
  const [state, setState] = useState(START);
  const held = useRef(state);
  held.current = state;
  const control = useRef(null);
  const load = useCallback(async (anew) => {
    control.current?.abort();
    const mine = (control.current = new AbortController());
    const cursor = anew ? null : held.current.cursor;
    setState((old) => ({ ...(anew ? { ...START, done: old.key === key ? old.done : [] } : old), key, loading: true, error: null }));
    try {
      const page = await get(path, { ...params, cursor, limit: AHEAD }, { signal: mine.signal });
      if (!mine.signal.aborted) setState((old) => joined(old, page, keyOf, anew));
    } catch (error) {
      if (!mine.signal.aborted) setState((old) => ({ ...old, loading: false, error }));
    }
  }, [key]);
  useEffect(() => (load(true), () => control.current?.abort()), [load]);
  const { items, loading, error, whole } = state;
  useEffect(() => {
    if (state.key === key && !loading && !error && !whole && items.length < FEW) load(false);
  }, [items.length, loading, whole, error]);
  return {
    ...state,
    now: items[0] ?? null,
    reload: () => load(true),
    answered: (done) => setState((old) => ({ ...without(old, done.item), done: [...old.done, done], left: minus(old.left, 1) })),
    skip: () => setState((old) => (old.items.length ? { ...without(old, old.items[0]), skipped: [...old.skipped, keyOf(old.items[0])] } : old)),
    back: (done) => setState((old) => ({ ...old, done: old.done.filter((one) => one !== done), items: [done.item, ...old.items], left: minus(old.left, -1) })),
  };
}

function joined(old, page, keyOf, anew) {
  const answered = new Set(old.done.map((one) => keyOf(one.item)));
  const passed = new Set([...answered, ...old.skipped, ...old.items.map(keyOf)]);
  const late = page.items.filter((one) => answered.has(keyOf(one))).length; // answered, and not committed yet
  const items = [...old.items, ...page.items.filter((one) => !passed.has(keyOf(one)))];
  return { ...old, items, cursor: page.next, whole: !page.next, left: anew || old.left === null ? minus(page.left ?? null, late) : old.left, exact: page.exact !== false, loading: false };
}

const without = (old, item) => ({ ...old, items: old.items.filter((one) => one !== item) });
const minus = (left, many) => (left === null ? null : Math.max(0, left - many));

// What is left and was done, in words.
export function progress({ left, exact, done, items, whole, loading }, thing) {
  const known = left ?? (whole && !loading ? items.length : null);
  const words = known === null ? [] : [`${exact ? "" : "at least "}${int(known)} ${thing(known)} left`];
  return [...words, ...(done.length ? [`${int(done.length)} judged now`] : [])].join(", ");
}
