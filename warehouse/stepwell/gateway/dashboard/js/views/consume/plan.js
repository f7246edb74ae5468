// A plan in figures: what trains, what does not and why, how it is packed.
import { html } from "../../lib/html.js";
import { Bars, Empty, Panel, Stat } from "../../lib/panel.js";
import { Copy } from "../../lib/text.js";
import { inert, int, num, percent } from "../../lib/format.js";
import { Adapter } from "./adapter.js";
import { FirstStep } from "./first_step.js";

const STEPS = 50; // optimizer steps that are listed

export function Plan({ plan, params }) {
  const { totals } = plan;
  const out = [...entries(plan.left_out), ...entries(plan.skipped, "refused: ")];
  const lost = out.reduce((sum, row) => sum + row.value, 0);
  return html`<div class="stats">
      <${Stat} label="Selected" value=${int(plan.selected)} detail=${`steps, at commit ${int(plan.at)}`} />
      <${Stat} label="Train" value=${int(plan.trained)} detail=${percent(plan.trained, plan.selected)} />
      <${Stat} label="Left out" value=${int(lost)} detail=${lost ? percent(lost, plan.selected) : "nothing"} tone=${lost ? "warn" : ""} />
      <${Stat} label="Optimizer steps" value=${int(plan.optimizer_steps)} detail=${`${int(totals.groups)} groups`} />
      <${Stat} label="Loss terms" value=${num(totals.terms)} title=${int(totals.terms)} detail="sampled tokens that train" />
      <${Stat} label="Tokens" value=${num(totals.tokens)} title=${int(totals.tokens)} detail=${`at most; ${num(totals.tokens_naive)} if nothing were shared`} />
      <${Stat} label="Saved by merging" value=${percent(totals.tokens_naive - totals.tokens, totals.tokens_naive)} detail=${`at least; cuts cost ${num(totals.inflation)}×`} tone="good" />
      <${Stat} label="Packs" value=${int(totals.packs)} detail=${`${int(totals.empty)} empty, ${num(totals.makespan_over_bound)}× the best`} />
    </div>
    <p class="dim" data-note="bounds">Planned from lengths, lineage and equal prompts, without reading tokens: what is computed and saved can only get better when tokens are read, as further
      common beginnings are found then. ${plan.first ? `The first optimizer step was read, and its figures below are exact: its packs have ${int(plan.first.report.tokens)} tokens, where at most ${int(plan.reports[0].tokens)} were planned.` : ""}</p>
    <div class="columns">
      <${Panel} title="Left out, and why" hint=${lost ? `${int(lost)} of ${int(plan.selected)} steps` : ""}>
        ${out.length ? html`<${Bars} label="Left out by reason" rows=${out} most=${20} />` : html`<${Empty}>Every selected step trains.<//>`}
        ${entries(plan.drift).length > 0 && html`<h3 class="further">Train, though their ids do not go on where their parent's ended</h3><${Bars} label="Drift by cause" rows=${entries(plan.drift)} />`}
      <//>
      <${Panel} title="The code that makes it" tools=${html`<${Copy} text=${plan.code} />`}><pre data-code="reader" tabindex="0" aria-label="code">${inert(plan.code)}</pre>
        <p class="dim">Policies: ${inert(plan.policies.join(", ")) || "none said"}. Models and tokenizers: ${inert(plan.fingerprints.join(", ")) || "none said"}.</p><//>
    </div>
    <${Reports} plan=${plan} />
    ${plan.first ? html`<${FirstStep} first=${plan.first} params=${params} />` : html`<${Panel} title="The first optimizer step"><${Empty}>${inert(plan.first_left_out)}<//><//>`}
    ${plan.adapter && html`<${Adapter} adapter=${plan.adapter} />`}`;
}

const entries = (counts, before = "") => Object.entries(counts ?? {}).map(([reason, value]) => ({ key: before + reason, label: `${before}${inert(reason)}`, value })).sort((a, b) => b.value - a.value);

const COLUMNS = [
  ["Groups", (one) => int(one.groups)],
  ["Steps", (one) => int(one.steps)],
  ["Terms", (one) => int(one.terms)],
  ["Tokens naive", (one) => int(one.tokens_naive)],
  ["merged", (one) => int(one.tokens_merged)],
  ["in packs", (one) => int(one.tokens)],
  ["Packs", (one) => int(one.packs)],
  ["Empty", (one) => int(one.empty)],
  ["Largest", (one) => int(one.largest)],
  ["Longest rank", (one) => int(one.makespan)],
  ["Bound", (one) => int(one.bound)],
];

function Reports({ plan }) {
  const shown = plan.reports.slice(0, STEPS);
  if (!shown.length) return null;
  return html`<${Panel} title="Optimizer steps" hint=${`as planned${plan.optimizer_steps > shown.length ? `, the first ${int(shown.length)} of ${int(plan.optimizer_steps)}` : ""}`}>
    <div class="scroll" role="region" aria-label="Optimizer steps" tabindex="0"><table class="plain">
      <thead><tr><th scope="col">Step</th>${COLUMNS.map(([name]) => html`<th key=${name} scope="col" class="right">${name}</th>`)}</tr></thead>
      <tbody>${shown.map((one, at) => html`<tr key=${at}><th scope="row">${int(at + 1)}</th>${COLUMNS.map(([name, cell]) => html`<td key=${name} class="right">${cell(one)}</td>`)}</tr>`)}</tbody>
    </table></div>
  <//>`;
}
