// The live figures. What this gateway does not say is a dash.
import { html } from "../../lib/html.js";
import { Stat } from "../../lib/panel.js";
import { bytes, duration, int, num } from "../../lib/format.js";
import { href } from "../../lib/url.js";

const LATE = 30; // seconds after which a record should have been committed

export function Tiles({ stats: { steps, today = {}, spool = {}, quarantined }, health }) {
  const own = health.data?.spool;
  const full = own ? own.bytes / own.max_bytes : 0;
  return html`<div class="stats">
    <${Stat} label="Steps" value=${num(steps.steps)} title=${int(steps.steps)} detail=${`${int(today.steps)} today`} href=${href("trajectories")} />
    <${Stat} label="Steps a minute" value=${int(steps.last_minute)} detail=${`${int(steps.last_hour)} last hour`} href=${href("collect")} />
    <${Stat} label="Calls today" value=${num(today.calls)} title=${int(today.calls)} detail=${`${int(steps.calls_last_minute)} a minute`} href=${href("collect")} />
    <${Stat} label="Tokens today" value=${num(tokens(today))} title=${int(tokens(today))} detail=${`${num(steps.tokens_last_minute)} a minute`} />
    <${Stat} label="Errors today" value=${int(today.errors)} detail=${`${int(steps.errors_last_minute)} a minute, ${int(steps.errors)} in all`} tone=${today.errors ? "warn" : ""} href=${href("trajectories", [], { status: "error" })} />
    <${Stat} label="Quarantined" value=${int(quarantined)} detail=${`${int(today.quarantined)} today`} tone=${quarantined ? "warn" : ""} href=${href("collect", ["quarantine"])} />
    <${Stat} label="Waiting in spools" value=${int(spool.lag)} detail=${own ? `${bytes(own.bytes)} of ${bytes(own.max_bytes)}` : bytes(spool.bytes)} tone=${full > 0.8 ? "bad" : ""} href=${href("collect", ["producers"])} />
    <${Stat} label="Commit lag" value=${duration(spool.waited_s)} detail=${behind(spool)} tone=${spool.lost || (spool.lag && !spool.ingest_alive) ? "bad" : spool.waited_s > LATE ? "warn" : ""} href=${href("collect", ["producers"])} />
  </div>`;
}

const tokens = ({ input_tokens: input, output_tokens: output }) => (input === undefined ? undefined : input + output);

function behind(spool) {
  if (spool.lost) return `${int(spool.lost)} could not be kept`;
  return spool.ingest_alive === false ? "no ingest runs" : `${int(spool.alive)} of ${int(spool.producers)} run`;
}
