// What the lists can be filtered by, and how the address becomes a question to the gateway.
const flag = (name, label) => ({ name, label, kind: "flag" });
const text = (name, label, hint) => ({ name, label, kind: "text", hint });
const number = (name, label) => ({ name, label, kind: "number" });
const STATES = ["open", "completed", "failed", "incomplete"].map((one) => [one, one]);
const STATUSES = [["ok", "ok"], ["truncated", "truncated"], ["error", "error"], ["client_disconnect", "client disconnected"], ["aborted", "aborted"]];

const BOTH = [
  { name: "state", label: "State", kind: "choice", options: STATES },
  flag("has_reward", "Has a reward"), number("reward_min", "Reward at least"), number("reward_max", "Reward at most"),
  text("group_id", "Group"), text("prompt_id", "Prompt"), { name: "split", label: "Split", kind: "choice", options: [["train", "train"], ["eval", "eval"]] },
  text("agent", "Agent"), text("model", "Model"), text("source", "Source of the ids"), text("policy", "Policy"),
  number("policy_version_min", "Policy version from"), number("policy_version_max", "Policy version to"),
  text("tag", "Tag"), text("label", "Label"), flag("trainable", "Trainable"),
  flag("truncated", "Truncated"), flag("tool_error", "Tool error"), flag("refusal", "Refusal"), flag("drift", "Drift"),
  flag("ready", "Group is ready"), flag("zero_variance", "Group without variance"),
  { name: "since", label: "Finished since (UTC)", kind: "time" }, { name: "until", label: "Finished before (UTC)", kind: "time" },
  text("where", "SQL condition", "reward > 0 AND model LIKE 'qwen%'"),
];

export const FIELDS = {
  trajectories: [...BOTH, flag("ended", "Ended"), flag("error", "A call failed"), text("step_label", "Label of a step")],
  steps: [
    ...BOTH, { name: "status", label: "Status", kind: "choice", options: STATUSES }, text("trajectory_id", "Trajectory"), text("dialect", "Dialect"), text("response_id", "Provider's id"),
    number("policy_lag_min", "Versions behind, at least"), number("policy_lag_max", "Versions behind, at most"),
    flag("superseded", "Superseded attempt"), flag("side", "Side call"),
  ],
};

const only = (mine, other) => FIELDS[mine].map((field) => field.name).filter((name) => !FIELDS[other].some((field) => field.name === name));
const STEPS_ONLY = only("steps", "trajectories");
export const ONLY = { steps: STEPS_ONLY, trajectories: only("trajectories", "steps") };

// Which list: as the address says, or the one that knows its filters.
export function listOf(params) {
  if (params.of === "steps" || params.of === "trajectories") return params.of;
  return STEPS_ONLY.some((name) => params[name]) ? "steps" : "trajectories";
}

// What the gateway is asked: the filters of this list.
export function asked(of, params) {
  const said = { q: params.q };
  for (const { name } of FIELDS[of]) if (params[name]) said[name] = params[name];
  return said;
}
