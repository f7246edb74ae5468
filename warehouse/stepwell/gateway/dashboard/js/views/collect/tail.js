// The live tail: steps and events as they are committed.
import { cls, html, useEffect, useMemo, useRef, useState } from "../../lib/html.js";
import { Badge, Choice, Panel } from "../../lib/panel.js";
import { Search } from "../../lib/filters.js";
import { Table } from "../../lib/table.js";
import { get } from "../../lib/api.js";
import { href, visit } from "../../lib/url.js";
import { int, many, num } from "../../lib/format.js";
import { useKeys } from "../../lib/keys.js";
import { COLUMNS, bad, words } from "./rows.js";
import { Feed, MOST } from "./feed.js";

const SHOW = [["all", "all"], ["step", "steps"], ["event", "events"], ["bad", "problems"]];
const BEFORE = 50;

export function Tail({ params, go }) {
  const [, setTick] = useState(0);
  const held = useRef(null);
  const feed = (held.current ??= new Feed(() => setTick((tick) => tick + 1)));
  useEffect(() => {
    const control = new AbortController();
    feed.start(() => get("/steps", { sort: "-commit", limit: BEFORE }, { signal: control.signal }).then(({ items }) => feed.before(items), () => {}));
    return () => (control.abort(), feed.close());
  }, []);
  const pause = () => feed.pause(!feed.paused);
  useKeys({ p: ["pause the live tail, or go on", pause] });
  const show = params.show ?? "all";
  const rows = useMemo(() => chosen(feed.rows, show, params.q), [feed.rows, show, params.q]);
  const tools = html`<button type="button" class=${cls("small", feed.paused && "primary")} aria-pressed=${String(feed.paused)} onClick=${pause}>
      ${feed.paused ? `Go on${feed.waiting.length ? ` (${int(feed.waiting.length + feed.passed)} new)` : ""}` : "Pause"}</button>
    <button type="button" class="small" onClick=${() => feed.clear()}>Clear</button>`;
  return html`<${Panel} title="Live" hint=${html`<${State} feed=${feed} />`} tools=${tools} class="tail">
    <div class="filters">
      <${Choice} label="Show" value=${show} options=${SHOW} onChange=${(to) => go({ show: to === "all" ? null : to }, { replace: true })} />
      <${Search} value=${params.q ?? ""} label="Filter by id, model, status, words" onChange=${(q) => go({ q }, { replace: true })} />
      <span class="dim" data-figure="received">${many(feed.received.step, "step")} and ${many(feed.received.event, "event")} came; ${int(rows.length)} of the newest ${int(MOST)} listed</span>
    </div>
    <${Table} label="Steps and events as they are committed" columns=${COLUMNS} rows=${rows} rowKey="key" onOpen=${open} mark=${(row) => bad(row) && "bad"}
      empty=${feed.rows.length ? "None of what came is of this kind." : "Nothing has come yet. Run an agent: stepwell run -- python agent.py"} />
  <//>`;
}

function State({ feed }) {
  const { status, error } = feed.state;
  if (status === "open") {
    return html`<span role="status"><${Badge} tone=${feed.paused ? "warn" : "good"}>${feed.paused ? "paused" : "live"}<//></span>${" "}
      <span class="rate"><b data-figure="rate">${num(feed.rate())}</b> a second</span>`;
  }
  const tone = status === "refused" ? "bad" : "warn";
  return html`<span role="status"><${Badge} tone=${tone}>${status === "waiting" ? "cut off, comes again" : status}<//> ${error?.message ?? ""}</span>`;
}

function chosen(rows, show, q) {
  const wanted = (q ?? "").trim().toLowerCase();
  return rows.filter((row) => (show === "all" || (show === "bad" ? bad(row) : row.kind === show)) && (!wanted || words(row).includes(wanted)));
}

function open({ kind, value }) {
  if (kind === "step" && value.trajectory_id) visit(href("trajectories", [value.trajectory_id], { step: value.step_id }));
  else if (kind === "step") visit(href("trajectories", [], { step: value.step_id }));
  else if (value.target_kind === "trajectory") visit(href("trajectories", [value.target_id]));
  else if (value.target_kind === "step") visit(href("trajectories", [], { step: value.target_id }));
}
