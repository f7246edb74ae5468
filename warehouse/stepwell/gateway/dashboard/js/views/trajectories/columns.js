// How a trajectory and a step look as rows of the lists.
import { html } from "../../lib/html.js";
import { Badge } from "../../lib/panel.js";
import { NONE, id, int, line, signed, time } from "../../lib/format.js";
import { Marks, Status, produced, seen, took } from "./marks.js";

const STATES = { completed: "good", failed: "bad", incomplete: "warn", open: "accent" };
export const State = ({ state }) => html`<${Badge} tone=${STATES[state] ?? ""}>${line(state ?? "unknown", 20)}<//>`;

// The step's own reward, or else its trajectory's.
export const rewardOf = (step) => step.reward ?? step.step_reward ?? step.trajectory_reward;
const versions = ({ policy_version_min: from, policy_version_max: to }) => (from === null || from === undefined ? NONE : from === to ? String(from) : `${from}–${to}`);
const full = (name) => (row) => line(row[name] ?? "", 400);

const COUNTED = [["errors", "failed", "bad"], ["truncated", "truncated", "warn"], ["tool_errors", "tool errors", "warn"], ["refusals", "refusals", "warn"], ["drifts", "drift", "warn"]];
function Troubles({ row }) {
  return COUNTED.filter(([name]) => row[name] > 0).map(([name, words, tone]) => html`<${Badge} key=${name} tone=${tone} title=${`${int(row[name])} steps: ${words}`}>${int(row[name])} ${words}<//> `);
}

export const TRAJECTORIES = [
  { name: "trajectory_id", label: "Trajectory", sort: true, class: "mono", cell: (row) => id(row.trajectory_id, 44), title: full("trajectory_id") },
  { name: "state", label: "State", sort: true, width: "104px", cell: (row) => html`<${State} state=${row.state} />` },
  { name: "reward", label: "Reward", sort: true, width: "78px", align: "right", cell: (row) => signed(row.trajectory_reward) },
  { name: "steps", label: "Steps", sort: true, width: "66px", align: "right", cell: (row) => int(row.steps) },
  { name: "response_tokens", label: "Sampled", sort: true, width: "86px", align: "right", cell: (row) => int(row.response_tokens ?? row.output_tokens), title: () => "tokens that the policy sampled" },
  { name: "troubles", label: "Marks", width: "11%", cell: (row) => html`<${Troubles} row=${row} />` },
  { name: "agent", label: "Agent", sort: true, width: "84px", cell: (row) => line(row.agent ?? NONE, 40), title: full("agent") },
  { name: "model", label: "Model", sort: true, width: "104px", cell: (row) => line(row.model ?? NONE, 40), title: full("model") },
  { name: "policy_version", label: "Version", sort: true, width: "78px", align: "right", cell: versions },
  { name: "group_id", label: "Group", sort: true, class: "mono", width: "106px", cell: (row) => id(row.group_id, 24), title: full("group_id") },
  { name: "last_at", label: "Last step", sort: true, width: "184px", cell: (row) => time(row.last_at) },
];

export const STEPS = [
  { name: "step_id", label: "Step", sort: true, class: "mono", cell: (row) => id(row.step_id, 44), title: full("step_id") },
  { name: "trajectory_id", label: "Trajectory", sort: true, class: "mono", width: "12%", cell: (row) => id(row.trajectory_id, 30), title: full("trajectory_id") },
  { name: "turn", label: "Turn", sort: true, width: "60px", align: "right", cell: (row) => int(row.turn) },
  { name: "status", label: "Status", sort: true, width: "84px", cell: (row) => html`<${Status} status=${row.status} />` },
  { name: "marks", label: "Marks", width: "128px", cell: (row) => html`<${Marks} step=${row} />` },
  { name: "reward", label: "Reward", sort: true, width: "78px", align: "right", cell: (row) => signed(rewardOf(row)) },
  { name: "prompt_length", label: "Prompt", sort: true, width: "76px", align: "right", cell: seen, title: () => "tokens of the prompt" },
  { name: "output_tokens", label: "Answer", sort: true, width: "76px", align: "right", cell: produced, title: () => "tokens of the answer" },
  { name: "duration", label: "Took", sort: true, width: "66px", align: "right", cell: took },
  { name: "model", label: "Model", sort: true, width: "104px", cell: (row) => line(row.model ?? NONE, 40), title: full("model") },
  { name: "policy_version", label: "Version", sort: true, width: "78px", align: "right", cell: (row) => int(row.policy_version) },
  { name: "finished_at", label: "Finished", sort: true, width: "184px", cell: (row) => time(row.finished_at) },
];
