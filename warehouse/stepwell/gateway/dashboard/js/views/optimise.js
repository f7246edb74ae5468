// Optimise: what steps share, what merging saves, and how a budget of tokens is packed over ranks.
import { html } from "../lib/html.js";
import { Asked, Badge, Stat } from "../lib/panel.js";
import { int, line, num, percent } from "../lib/format.js";
import { style } from "../lib/style.js";
import { useApi } from "../lib/api.js";
import { Chosen, selectionOf } from "./optimise/chosen.js";
import { Icicle } from "./optimise/icicle.js";
import { Packing } from "./optimise/packing.js";
import { Savings } from "./optimise/savings.js";

await style("css/optimise.css");

const PIXELS = 2400; // nothing narrower is drawn by the server

export default function Optimise({ params, go }) {
  const chosen = selectionOf(params);
  const key = JSON.stringify(chosen); // another choice begins anew: no figure of the old one stays
  return html`<div class="head"><h1>Optimise</h1></div>
    <${Chosen} params=${params} go=${go} />
    ${chosen ? html`<${Tree} key=${key} chosen=${chosen} params=${params} go=${go} /><${Packing} key=${`packing ${key}`} chosen=${chosen} params=${params} go=${go} />`
      : html`<p class="empty">Choose a prompt group, a trajectory, a dataset or a condition: here is shown what its steps share.</p>`}`;
}

function Tree({ chosen, params, go }) {
  const by = params.by === "steps" ? "steps" : "tokens";
  const asked = useApi("/prefix-tree", { ...chosen, by, node: params.node, at: params.at, budget_px: PIXELS });
  const zoom = (at) => (node) => go({ node, at: node === null ? null : at });
  return html`<${Asked} of=${asked}>${(tree) => html`
    <${Figures} tree=${tree} />
    <${Icicle} tree=${tree} by=${by} loading=${asked.loading} zoom=${zoom(tree.at)} setBy=${(to) => go({ by: to === "tokens" ? null : to })} />
    <${Savings} tree=${tree} zoom=${zoom(tree.at)} />`}<//>`;
}

function Figures({ tree: { steps, without_ids, tokens, saved, nodes, at, selection } }) {
  return html`<div class="stats">
    <${Stat} label="Steps" value=${num(steps)} title=${int(steps)} detail=${without_ids ? html`<${Badge} tone="warn">${int(without_ids)} without ids<//>` : `of ${line(selection)}, at commit ${int(at)}`} />
    <${Stat} label="Tokens, each step in full" value=${num(tokens.naive)} title=${int(tokens.naive)} detail=${`${num(tokens.sampled)} of them sampled once`} />
    <${Stat} label="Tokens, merged" value=${num(tokens.merged)} title=${int(tokens.merged)} detail=${`in ${int(nodes)} parts`} />
    <${Stat} label="Saved" value=${percent(saved, tokens.naive)} detail=${`${num(saved)} tokens`} tone=${saved ? "good" : ""} />
    <${Stat} label="Naive over merged" value=${tokens.merged ? `${num(tokens.naive / tokens.merged)}×` : "–"} detail="tokens that need not be computed again" />
  </div>`;
}
