// Where the proxy sends calls, in the order in which routes are tried.
import { html } from "../../lib/html.js";
import { Badge, Empty, Panel } from "../../lib/panel.js";
import { inert } from "../../lib/format.js";
import { Plain } from "./plain.js";

const COLUMNS = [
  { label: "Host", mono: true, cell: (route) => inert(route.host) },
  { label: "Path", mono: true, cell: (route) => inert(route.path) || html`<span class="dim">every path</span>` },
  { label: "Model", mono: true, cell: (route) => (route.model === null || route.model === undefined ? html`<span class="dim">every model</span>` : inert(route.model)) },
  { label: "Goes to", mono: true, cell: (route) => (route.upstream ? inert(route.upstream) : html`<span class="dim">the host itself</span>`) },
  { label: "Engine", cell: (route) => (route.engine ? html`<${Badge} tone="accent">${inert(engine(route.engine))}<//>` : html`<span class="dim">text only</span>`) },
];

const engine = (said) => (typeof said === "string" ? said : said.kind ?? said.name ?? JSON.stringify(said));

export function Routes({ system: { routes } }) {
  const rows = routes.map((route, at) => ({ ...route, at }));
  return html`<${Panel} title="Routes" hint="the first that fits a call counts">
    ${rows.length ? html`<${Plain} label="Routes" columns=${[{ label: "#", cell: (route) => route.at + 1 }, ...COLUMNS]} rows=${rows} keyOf=${(route) => route.at} />`
      : html`<${Empty}>No routes: calls go to the hosts that they name, and are captured as text. Routes are set in <code>stepwell.toml</code>, section <code>[[proxy.routes]]</code>.<//>`}
  <//>`;
}
