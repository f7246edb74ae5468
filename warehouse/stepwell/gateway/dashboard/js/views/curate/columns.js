// How a step looks in a list that is judged.
import { html } from "../../lib/html.js";
import { Badge } from "../../lib/panel.js";
import { NONE, ago, id, int, line, signed, time } from "../../lib/format.js";

const TONES = { ok: "good", truncated: "warn" };
const MOST = 4; // labels that a row shows

export const reward = (step) => step.step_reward ?? step.trajectory_reward;

export const Labels = ({ labels }) => (labels ?? []).slice(0, MOST).map((label) => html`<${Badge} key=${label} tone="accent">${line(label, 24)}<//> `);

// What is doubtful about it, in short words.
export function Doubts({ step }) {
  const found = [
    !step.trainable && ["not for training", "", step.untrainable_reason],
    step.drift && ["drift", "warn"],
    step.tool_error && ["tool error", "warn"],
    step.refusal && ["refusal", "warn"],
    step.superseded_by && ["superseded", ""],
    step.side && ["side", ""],
  ].filter(Boolean);
  return found.map(([words, tone, why]) => html`<${Badge} key=${words} tone=${tone} title=${line(why, 400)}>${words}<//> `);
}

export const COLUMNS = [
  { name: "step_id", label: "Step", sort: true, class: "mono", cell: (step) => id(step.step_id, 30), title: (step) => line(step.step_id, 400) },
  { name: "group_id", label: "Group", sort: true, class: "mono", width: "112px", cell: (step) => id(step.group_id, 18), title: (step) => line(step.group_id, 400) },
  { name: "model", label: "Model", sort: true, width: "112px", cell: (step) => line(step.model ?? NONE, 40) },
  { name: "status", label: "Status", sort: true, width: "96px", cell: (step) => html`<${Badge} tone=${TONES[step.status] ?? "bad"}>${line(step.status, 24)}<//>` },
  { name: "reward", label: "Reward", sort: true, align: "right", width: "86px", cell: (step) => signed(reward(step)) },
  { name: "labels", label: "Labels", width: "146px", cell: (step) => html`<${Labels} labels=${step.labels} />`, title: (step) => (step.labels ?? []).map((label) => line(label)).join(", ") },
  { name: "doubts", label: "Doubts", width: "132px", cell: (step) => html`<${Doubts} step=${step} />` },
  { name: "policy_version", label: "Version", sort: true, align: "right", width: "82px", cell: (step) => int(step.policy_version) },
  { name: "output_tokens", label: "Tokens", align: "right", width: "104px", cell: (step) => `${int(step.input_tokens ?? step.prompt_length)} + ${int(step.output_tokens ?? step.response_length)}` },
  { name: "finished_at", label: "Finished", sort: true, width: "116px", cell: (step) => ago(step.finished_at), title: (step) => time(step.finished_at) },
];
