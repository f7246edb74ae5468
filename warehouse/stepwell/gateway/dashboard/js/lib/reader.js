// The settings of a reader as fields of the address, and as the body of a request.
const select = (name, label, options, hint) => ({ name, label, options: options.map((one) => (Array.isArray(one) ? one : [one, one])), hint });
const whole = (name, label, usual, hint) => ({ name, label, usual, kind: "number", hint });

export const FIELDS = [
  select("advantage", "Advantages", ["grpo", "rloo", "reinforce", "reinforce++", "reinforce++-baseline", "step", "none"]),
  select("loss", "Loss", ["token-mean", "sequence-mean", "trajectory-mean"]),
  select("merge", "Merge", [["tree", "prefix trees"], ["trajectory", "within trajectories"], ["none", "nothing"]]),
  whole("max_tokens", "Tokens per pack", 65536),
  whole("ranks", "Ranks", 1),
  whole("groups_per_step", "Groups per step", "", "all"),
  whole("max_length", "Longest step", "", "any"),
  whole("seed", "Seed", 0),
  select("on_drift", "Where ids drift", [["fork", "fork"], ["realign", "realign"], ["drop", "drop"]]),
  select("adapter", "For the trainer", [["", "any"], "verl", "slime", "skyrl", "trl-grpo", "trl-async", "trl-sft", "areal", "prime-rl", "tinker"]),
];
export const FLAGS = [
  ["unended", "trajectories that have not ended, too"],
  ["derived", "ids made from text, too"],
];
export const FIRST = Object.fromEntries(FIELDS.map(({ name, options, usual }) => [name, String(options ? options[0][0] : usual)]));

// The body of POST /batches/preview, or null where nothing is chosen. What is not said is the reader's default.
export function bodyOf(params) {
  if (!params.dataset && !params.where) return null;
  const body = params.dataset ? { dataset: params.dataset } : { where: params.where };
  for (const { name, kind } of FIELDS) if (params[name]) body[name] = kind === "number" ? Number(params[name]) : params[name];
  for (const [name] of FLAGS) if (params[name] === "true") body[name] = true;
  return body;
}
