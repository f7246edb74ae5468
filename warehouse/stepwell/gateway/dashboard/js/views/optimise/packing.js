// A budget of tokens per pack over ranks: how even it is, what attention is computed, and what that costs beside no merging.
import { cls, html } from "../../lib/html.js";
import { Asked, Empty, Panel, Stat } from "../../lib/panel.js";
import { href } from "../../lib/url.js";
import { inert, int, num, percent } from "../../lib/format.js";
import { post, useApi } from "../../lib/api.js";
import { asSelection } from "./chosen.js";
import { Mask } from "./mask.js";

const BUDGET = 65_536;

export function Packing({ chosen, params, go }) {
  const max_tokens = Number(params.max_tokens) || BUDGET;
  const ranks = Number(params.ranks) || 1;
  const body = { ...asSelection(chosen), max_tokens, ranks, advantage: "none", unended: true };
  const asked = useApi("/batches/preview", body, { load: post });
  const submit = (event) => {
    event.preventDefault();
    const said = Object.fromEntries(new FormData(event.target));
    go({ max_tokens: Number(said.max_tokens) === BUDGET ? null : said.max_tokens, ranks: said.ranks === "1" ? null : said.ranks });
  };
  const form = html`<form class="budget" onSubmit=${submit} key=${`${max_tokens} ${ranks}`}>
    <label>tokens per pack <input name="max_tokens" type="number" min="1" max="100000000" defaultValue=${max_tokens} required /></label>
    <label>ranks <input name="ranks" type="number" min="1" max="1024" defaultValue=${ranks} required /></label>
    <button type="submit" class="small">Pack</button></form>`;
  return html`<${Panel} title="Packed over ranks" hint=${asked.loading ? "planning…" : "the first optimizer step, rewards left aside"} tools=${form}>
    <div class=${cls(asked.loading && asked.data && "stale")}><${Asked} of=${asked}>${(plan) => (plan.first ? html`<${Packed} first=${plan.first} />` : html`<${Empty}>${inert(plan.first_left_out)}<//>`)}<//></div>
    <p><a href=${href("consume", ["preview"], { ...asSelection(chosen), max_tokens, ranks })}>What a trainer would get of it, and what is left out</a></p>
  <//>`;
}

function Packed({ first }) {
  const { operations, report } = first;
  const most = Math.max(1, ...first.tokens_by_rank);
  return html`<div class="stats">
      <${Stat} label="Operations" value=${`${num(operations.ratio)}×`} detail=${`fewer than unmerged, at ${num(operations.model.parameters)} parameters`} tone=${operations.ratio > 1 ? "good" : ""} />
      <${Stat} label="Tokens computed" value=${num(operations.tokens.computed)} title=${int(operations.tokens.computed)} detail=${`of ${num(operations.tokens.naive)}`} />
      <${Stat} label="Attention pairs" value=${num(operations.pairs.computed)} title=${int(operations.pairs.computed)} detail=${`of ${num(operations.pairs.naive)}`} />
      <${Stat} label="Packs" value=${int(report.packs)} detail=${`${int(report.empty)} empty; largest ${int(report.largest)}`} />
      <${Stat} label="Longest rank" value=${int(report.makespan)} detail=${`at least ${int(report.bound)} (${percent(report.makespan - report.bound, report.bound)} above)`} />
    </div>
    <div class="packed">
      <ol class="ranks" aria-label="Tokens by rank">${first.tokens_by_rank.map((tokens, rank) => html`<li key=${rank}><span>rank ${int(rank)}</span>
        <span class="lane" aria-hidden="true">${first.packs.filter((one) => one.rank === rank && one.tokens).map((one) => html`<i key=${one.number} title=${`pack ${one.number}: ${int(one.tokens)} tokens`} style=${{ width: `${(100 * one.tokens) / most}%` }} />`)}</span>
        <span class="count">${int(tokens)}</span></li>`)}</ol>
      ${first.mask && html`<${Mask} mask=${first.mask} />`}
    </div>`;
}
