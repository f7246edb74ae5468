// The first optimizer step: which rank gets which packs, and what each step in a pack is due.
import { cls, html, useState } from "../../lib/html.js";
import { Panel } from "../../lib/panel.js";
import { id, inert, int, line, num, percent, signed } from "../../lib/format.js";
import { href } from "../../lib/url.js";

const PACKS = 400; // that are drawn

export function FirstStep({ first, params }) {
  const [chosen, setChosen] = useState(0);
  const packs = first.packs.slice(0, PACKS);
  const most = Math.max(1, ...first.tokens_by_rank);
  const pack = packs[chosen];
  const { operations } = first;
  const left = Object.entries(first.skipped);
  return html`<${Panel} title="The first optimizer step" hint=${`as it is read: ${int(first.packs.length + first.packs_left_out)} packs over ${int(first.ranks)} ${first.ranks === 1 ? "rank" : "ranks"}`}>
    <p><b data-figure="ratio">${num(operations.ratio)}×</b> fewer operations than without merging, estimated for a dense model of ${num(operations.model.parameters)} parameters:${" "}
      <b>${int(operations.tokens.computed)}</b> of ${int(operations.tokens.naive)} tokens, <b>${int(operations.pairs.computed)}</b> of ${int(operations.pairs.naive)} pairs of attention.
      ${left.length > 0 && html` Left out of it: ${left.map(([reason, count]) => `${int(count)} ${inert(reason)}`).join(", ")}.`}
      ${first.level_groups > 0 && html` <b>${int(first.level_groups)}</b> ${first.level_groups === 1 ? "group has" : "groups have"} one reward only, and ${first.level_groups === 1 ? "teaches" : "teach"} nothing.`}</p>
    <ol class="ranks" aria-label="Packs by rank">${first.tokens_by_rank.map((tokens, rank) => html`<li key=${rank}>
      <span class="name">rank ${int(rank)}</span>
      <span class="lane">${packs.map((one, at) => one.rank === rank && one.tokens > 0 && html`<button key=${one.number} type="button" class=${cls("pack", at === chosen && "chosen")} style=${{ width: `${(100 * one.tokens) / most}%` }}
        aria-pressed=${String(at === chosen)} aria-label=${`Rank ${rank}, pack ${one.number}: ${one.tokens} tokens, ${one.steps} steps`} title=${`pack ${one.number}: ${int(one.tokens)} tokens`} onClick=${() => setChosen(at)}></button>`)}</span>
      <span class="count">${int(tokens)}</span></li>`)}</ol>
    <p><a href=${href("optimise", [], { ...params, of: "batch" })}>Its prefix trees</a></p>
    ${pack && html`<${Pack} pack=${pack} />`}
  <//>`;
}

function Pack({ pack }) {
  return html`<h3 class="further">Rank ${int(pack.rank)}, pack ${int(pack.number)}: ${int(pack.tokens)} tokens for ${int(pack.tokens_naive)} (${percent(pack.tokens_naive - pack.tokens, pack.tokens_naive)} saved), ${int(pack.trees)} ${pack.trees === 1 ? "tree" : "trees"}</h3>
    <div class="scroll" role="region" aria-label="Steps of the pack" tabindex="0"><table class="plain">
      <thead><tr><th scope="col">Step</th><th scope="col">Trajectory</th><th scope="col">Group</th><th scope="col" class="right">Tokens</th><th scope="col" class="right">Shared</th><th scope="col" class="right">Terms</th><th scope="col" class="right">Advantage</th><th scope="col" class="right">Weight</th></tr></thead>
      <tbody>${pack.named.map((step) => html`<tr key=${step.step_id}>
        <th scope="row" class="mono keep"><a href=${href("curate", ["step", step.step_id])} title=${line(step.step_id, 400)}>${id(step.step_id, 32)}</a></th>
        <td class="mono">${id(step.trajectory_id, 24)}</td><td class="mono">${id(step.group_id, 20)}</td>
        <td class="right">${int(step.tokens)}</td><td class="right">${int(step.shared)}</td><td class="right">${int(step.terms)}</td>
        <td class="right">${signed(step.advantage)}</td><td class="right">${num(step.weight)}</td></tr>`)}</tbody>
    </table></div>
    ${pack.named.length < pack.steps && html`<p class="dim">${int(pack.named.length)} of its ${int(pack.steps)} steps are named.</p>`}`;
}
