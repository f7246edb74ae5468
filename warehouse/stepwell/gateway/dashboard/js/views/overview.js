// The overview: how much there is and comes, of what, through which stages, and what needs somebody.
import { html } from "../lib/html.js";
import { Choice, Panel, Problem } from "../lib/panel.js";
import { time } from "../lib/format.js";
import { style } from "../lib/style.js";
import { get, useApi } from "../lib/api.js";
import { Attention } from "./overview/attention.js";
import { Breakdowns } from "./overview/breakdowns.js";
import { Charts, WINDOWS } from "./overview/charts.js";
import { Flow } from "./overview/flow.js";
import { Tiles } from "./overview/tiles.js";

await style("css/overview.css");

const UNKNOWN = { steps: {}, trajectories: {}, groups: {} }; // every figure of it is a dash

export default function Overview({ params, go }) {
  const stats = useApi("/stats", {}, { every: 5000 });
  const health = useApi("/health", {}, { every: 2500 });
  const ready = useApi("/ready", {}, { every: 5000, load: readiness });
  const chosen = WINDOWS.find(([name]) => name === params.window) ?? WINDOWS[1];
  return html`
    <div class="head">
      <h1>Overview</h1>
      <${Ready} of=${ready} />
      <div class="tools">
        <span class="dim">${stats.data ? `as of ${time(stats.data.at)}` : ""}</span>
        <${Choice} label="Time window of the charts" value=${chosen[0]} options=${WINDOWS} onChange=${(window) => go({ window })} />
      </div>
    </div>
    ${stats.error && html`<${Problem} error=${stats.error} retry=${stats.reload} />`}
    <${Tiles} stats=${stats.data ?? UNKNOWN} health=${health} />
    <div class="overview-main">
      <${Panel} title="From agents to trainers" hint="today"><${Flow} stats=${stats.data ?? UNKNOWN} /><//>
      <${Attention} />
    </div>
    <${Charts} window=${chosen} by=${params.by ?? "source"} go=${go} />
    ${stats.data && html`<${Breakdowns} stats=${stats.data} />`}`;
}

// 503 is an answer, too: it says which part is not ready.
async function readiness(path, params, options) {
  try {
    return await get(path, params, options);
  } catch (error) {
    if (error.status === 503 && error.problem?.spool) return error.problem;
    throw error;
  }
}

function Ready({ of }) {
  if (of.error) return html`<span class="badge bad" role="status">${of.error.message}</span>`;
  if (!of.data) return null;
  const { status, spool, store } = of.data;
  return status === "ready"
    ? html`<span class="badge good" role="status">ready</span>`
    : html`<span class="badge bad" role="status">not ready: spool ${spool}, store ${store}</span>`;
}
