// A step at the left, judging it at the right.
import { html, useState } from "../../lib/html.js";
import { Badge, Panel } from "../../lib/panel.js";
import { Copy } from "../../lib/text.js";
import { NONE, id, inert, int, line, signed, time } from "../../lib/format.js";
import { href } from "../../lib/url.js";
import { Correction } from "./correction.js";
import { Conversation, Message, textOf } from "./message.js";
import { Doubts } from "./columns.js";
import { Judgement } from "./judgement.js";
import { Said } from "./said.js";

// `children`: what stands above the judging (the question of a queue).
export function Judged({ step, editing, setEditing, onSaid, children, keys = true }) {
  const [draft, setDraft] = useState(null);
  const done = () => (setDraft(null), setEditing(false), onSaid());
  return html`<div class="judged">
    <${Panel} title="The step" hint=${html`<span class="mono">${id(step.step_id, 40)}</span>`}
      tools=${html`<${Copy} text=${step.step_id} label="Copy id" /><a href=${href("trajectories", step.trajectory_id ? [step.trajectory_id] : [], { step: step.step_id })}>open in Trajectories</a>`}>
      <${Facts} step=${step} />
      <${Conversation} messages=${step.messages} />
      <div class="answer">
        <h3>The answer</h3>
        <${Message} message=${step.response ?? { role: "assistant", content: [] }} />
        ${!step.response && step.response_ids && html`<p class="dim">${int(step.response_ids.length)} ids</p>`}
        ${editing && html`<${Correction} key=${step.step_id} step=${step} was=${textOf(step.response)} draft=${draft} setDraft=${setDraft} done=${done} cancel=${() => setEditing(false)} />`}
      </div>
    <//>
    <div class="side">
      ${children}
      <${Judgement} key=${step.step_id} step=${step} keys=${keys} onSaid=${onSaid} correct=${() => setEditing(true)} />
      <${Said} step=${step} onSaid=${onSaid} />
    </div>
  </div>`;
}

function Facts({ step }) {
  const facts = [
    ["Trajectory", html`<span class="mono" title=${line(step.trajectory_id, 400)}>${id(step.trajectory_id, 36)}</span>`],
    ["Group", html`<span class="mono" title=${line(step.group_id, 400)}>${id(step.group_id, 36)}</span>`],
    ["Model", html`${line(step.model ?? NONE, 60)}${step.policy ? ` · ${line(step.policy, 40)} ${int(step.policy_version)}` : ""}`],
    ["Reward", html`${signed(step.step_reward)} own, ${signed(step.trajectory_reward)} of the trajectory`],
    ["Tokens", `${int(step.input_tokens ?? step.prompt_length)} + ${int(step.output_tokens ?? step.response_ids?.length)}`],
    ["Finished", time(step.finished_at)],
  ];
  return html`<dl class="facts step-facts">${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    <p class="doubts"><${Badge} tone=${step.status === "ok" ? "good" : "bad"}>${inert(step.status)}<//> <${Doubts} step=${step} />
      ${!step.trainable && step.untrainable_reason && html`<span class="dim">${inert(step.untrainable_reason)}</span>`}</p>`;
}
