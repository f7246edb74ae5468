// The filters of steps, for every view that chooses some: their fields for <${Filters}>, and what of the address is one.
import { inert } from "./format.js";

const flag = (name, label, hint) => ({ name, label, kind: "flag", hint });
const choice = (name, label, values) => ({ name, label, kind: "choice", options: values.map((value) => (Array.isArray(value) ? value : [value, value])) });
const number = (name, label) => ({ name, label, kind: "number" });
const text = (name, label, hint) => ({ name, label, kind: "text", hint });

export const FIELDS = [
  flag("has_reward", "has a reward"),
  number("reward_min", "reward at least"),
  number("reward_max", "reward at most"),
  flag("trainable", "trainable"),
  flag("ready", "group is ready"),
  flag("zero_variance", "group has one reward only"),
  number("policy_lag_min", "policy lag at least"),
  number("policy_lag_max", "policy lag at most"),
  text("label", "label"),
  text("tag", "tag"),
  text("agent", "agent"),
  text("model", "model"),
  text("source", "source", "engine"),
  text("policy", "policy"),
  number("policy_version_min", "policy version from"),
  number("policy_version_max", "policy version to"),
  choice("status", "status", ["ok", "truncated", "error", "client_disconnect", "aborted"]),
  choice("state", "trajectory is", ["open", "completed", "failed", "incomplete"]),
  choice("split", "split", ["train", "eval"]),
  flag("truncated", "cut off"),
  flag("drift", "ids drift"),
  flag("tool_error", "tool error"),
  flag("refusal", "refusal"),
  flag("side", "side call"),
  flag("superseded", "superseded attempt"),
  text("trajectory_id", "trajectory"),
  text("group_id", "prompt group"),
  text("prompt_id", "prompt"),
  text("dialect", "dialect"),
  { name: "since", label: "finished since (UTC)", kind: "time" },
  { name: "until", label: "finished before (UTC)", kind: "time" },
  text("where", "SQL condition", "prompt_length > 4000"),
];

const KINDS = new Map(FIELDS.map((field) => [field.name, field.kind]));
export const NAMES = [...KINDS.keys(), "q"];

// The parameters that say which steps, as they are in the address: for a GET, or a link to another view with the same filter.
export const filterOf = (params) => Object.fromEntries(NAMES.filter((name) => params[name]).map((name) => [name, params[name]]));

// The same as values of JSON: for the body of a request.
export function filterBody(params) {
  const typed = { flag: (value) => value === "true", number: Number };
  return Object.fromEntries(Object.entries(filterOf(params)).map(([name, value]) => [name, (typed[KINDS.get(name)] ?? String)(value)]));
}

// In words, for a line of text.
export function filterWords(params) {
  const said = Object.entries(filterOf(params)).map(([name, value]) => {
    const field = FIELDS.find((one) => one.name === name);
    if (!field) return `says “${inert(value)}”`;
    if (field.kind === "flag") return value === "true" ? field.label : `not: ${field.label}`;
    return `${field.label} ${inert(value)}`;
  });
  return said.join(", ") || "all steps";
}
