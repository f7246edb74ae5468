// Optimise: what steps share, what merging saves, and how a budget of tokens is packed over ranks.
import { html } from "../lib/html.js";
import { Asked, Badge, Stat } from "../lib/panel.js";
import { int, line, num, percent } from "../lib/format.js";
import { style } from "../lib/style.js";
import { href } from "../lib/url.js";
import { post, useApi } from "../lib/api.js";
import { bodyOf } from "../lib/reader.js";
import { Chosen, selectionOf } from "./optimise/chosen.js";
import { Icicle } from "./optimise/icicle.js";
import { Packing } from "./optimise/packing.js";
import { Savings } from "./optimise/savings.js";

await style("css/optimise.css");

const PIXELS = 2400; // nothing narrower is drawn by the server

// Of a selection, or of the first optimizer step that a reader with the settings in the address makes of it (`of=batch`).
export default function Optimise({ params, go }) {
  const chosen = selectionOf(params);
  const batch = params.of === "batch" ? bodyOf(params) : null;
  const key = JSON.stringify(batch ?? chosen); // another choice begins anew: no figure of the old one stays
  const Of = batch ? Batch : Selected;
  return html`<div class="head"><h1>Optimise</h1></div>
    <${Chosen} params=${params} go=${go} />
    ${chosen ? html`<${Of} key=${key} chosen=${chosen} batch=${batch} params=${params} go=${go} /><${Packing} key=${`packing ${key}`} chosen=${chosen} params=${params} go=${go} />`
      : html`<p class="empty">Choose a prompt group, a trajectory, a dataset or a condition: here is shown what its steps share.</p>`}`;
}

function Selected({ chosen, params, go }) {
  const asked = useApi("/prefix-tree", { ...chosen, ...drawing(params), at: atOf(params) });
  return html`<${Tree} asked=${asked} params=${params} go=${go} />`;
}

function Batch({ batch, params, go }) {
  const body = { ...batch, ...drawing(params), at: atOf(params) };
  const asked = useApi("/batches/prefix-tree", body, { load: post });
  return html`<p>As the packs hold them that a reader makes of its first optimizer step; what several packs begin with, each computes.
      <a href=${href("consume", ["preview"], { ...params, of: null, by: null, node: null, at: null })}>All of its settings</a>, or
      <a href=${href("optimise", [], { ...params, of: null, node: null, at: null })}>what all the selected steps share</a>.</p>
    <${Tree} asked=${asked} params=${params} go=${go} />`;
}

const byOf = (params) => (params.by === "steps" ? "steps" : "tokens");
const number = (value) => (/^\d{1,12}$/.test(value ?? "") ? Number(value) : null);
const drawing = (params) => ({ by: byOf(params), node: number(params.node), budget_px: PIXELS });
const atOf = (params) => (params.dataset ? null : number(params.at)); // a dataset is as it was made

function Tree({ asked, params, go }) {
  const zoom = (at) => (node) => go({ node, at: node === null || params.dataset ? null : at });
  return html`<${Asked} of=${asked}>${(tree) => html`
    <${Figures} tree=${tree} />
    <${Icicle} tree=${tree} by=${byOf(params)} loading=${asked.loading} zoom=${zoom(tree.at)} setBy=${(to) => go({ by: to === "tokens" ? null : to })} />
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
