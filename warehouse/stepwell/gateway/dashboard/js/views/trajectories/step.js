// The step inspector: what it saw and said, its tokens, times, call, neighbours, and how its prompt differs from another's.
import { cls, html, useMemo } from "../../lib/html.js";
import { Asked } from "../../lib/panel.js";
import { Copy } from "../../lib/text.js";
import { useKeys } from "../../lib/keys.js";
import { NONE, id, int, line, signed } from "../../lib/format.js";
import { Diff } from "./diff.js";
import { Events } from "./events.js";
import { Group } from "./group.js";
import { Details } from "./details.js";
import { Marks, Status, produced, seen, took } from "./marks.js";
import { Messages } from "./messages.js";
import { Raw } from "./raw.js";
import { Tokens } from "./tokens.js";
import { rewardOf } from "./columns.js";
import { laid } from "./lanes.js";

const TABS = [
  ["messages", "Messages", Messages],
  ["tokens", "Tokens", Tokens],
  ["details", "Details", Details],
  ["raw", "Raw call", Raw],
  ["group", "Group", Group],
  ["diff", "Difference", Diff],
];

export function Step({ asked, name, params, go, close, trajectory, choose }) {
  const step = asked.data?.step_id === name ? asked.data : null; // not the one before, while this one comes
  const tab = TABS.find(([key]) => key === params.tab) ?? TABS[step && step.messages === null && step.prompt_length !== null ? 1 : 0];
  const to = (key) => go({ tab: key }, { replace: true });
  useKeys({
    ...Object.fromEntries(TABS.map(([key, title], number) => [String(number + 1), [`step: ${title.toLowerCase()}`, () => to(key)]])),
    ...(step?.parent_id && choose && { p: ["the step's parent", () => choose(step.parent_id)] }),
  });
  const place = useMemo(() => trajectory && laid(trajectory.tree, trajectory.conversations).rows.find(({ key }) => key === name)?.place, [trajectory, name]);
  return html`<section class="panel step" aria-labelledby="step-title">
    <header><h2 id="step-title">Step <span class="mono">${id(name, 44)}</span></h2>
      <div class="tools"><${Copy} text=${name} label="Copy id" />${close && html`<button type="button" class="small" onClick=${close} title="u">Close</button>`}</div></header>
    <${Asked} of=${step ? asked : { ...asked, data: null }}>${() => html`<${Marked} step=${step} place=${place} choose=${choose} />${tab[0] !== "tokens" && html`<${Summary} step=${step} />`}
      <div class="tabs" role="tablist" aria-label="Of the step">
        ${TABS.map(([key, title], number) => html`<button key=${key} type="button" role="tab" id=${`tab-${key}`} aria-selected=${String(key === tab[0])} aria-controls="tab-panel"
          tabindex=${key === tab[0] ? 0 : -1} class=${cls("bare", key === tab[0] && "on")} onClick=${() => to(key)} onKeyDown=${(event) => turn(event, number, to)}>${title}</button>`)}
      </div>
      <div id="tab-panel" role="tabpanel" aria-labelledby=${`tab-${tab[0]}`}>
        <${tab[2]} step=${step} params=${params} go=${go} choose=${choose} trajectory=${trajectory} />
      </div>
      ${tab[0] === "messages" && step.feedback.length > 0 && html`<${Events} events=${step.feedback} title="Judgements that count" />`}`}<//>
  </section>`;
}

// The arrows go from tab to tab, as in any row of tabs.
function turn(event, number, to) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!by) return;
  event.preventDefault();
  const next = (number + by + TABS.length) % TABS.length;
  to(TABS[next][0]);
  event.currentTarget.parentNode.children[next].focus();
}

const unit = (said) => (said === NONE ? "" : "tokens");

function Summary({ step }) {
  const facts = [
    ["Reward", signed(rewardOf(step)), step.step_reward === null && step.trajectory_reward !== null ? "of its trajectory" : ""],
    ["Prompt", seen(step), unit(seen(step))],
    ["Answer", produced(step), unit(produced(step))],
    ["Took", took(step), ""],
    ["Version", int(step.policy_version), line(step.policy ?? "", 30)],
    ["Model", line(step.model ?? "unknown", 40), ""],
  ];
  return html`<dl class="strip" aria-label="The step">${facts.map(([label, value, more]) => html`<div key=${label}><dt>${label}</dt>
    <dd data-figure=${`step ${label.toLowerCase()}`}>${value} ${more && html`<span class="dim">${more}</span>`}</dd></div>`)}</dl>`;
}

// What is remarkable about it, and where it hangs.
function Marked({ step, place, choose }) {
  return html`<div class="summary"><${Status} status=${step.status} /><${Marks} step=${step} place=${place} bare />
      ${step.parent_id && choose && html`<button type="button" class="bare small" title="p" onClick=${() => choose(step.parent_id)}>parent <span class="mono">${id(step.parent_id, 26)}</span></button>`}
      ${step.lineage.attempts.map((one) => choose && html`<button key=${one} type="button" class="bare small" onClick=${() => choose(one)}>same call <span class="mono">${id(one, 26)}</span></button>`)}
    </div>
    ${step.untrainable_reason && html`<p class="dim">Not trained on: ${line(step.untrainable_reason, 300)}</p>`}`;
}
