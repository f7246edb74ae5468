// What is remarkable about a step, in a word each.
import { html } from "../../lib/html.js";
import { Badge } from "../../lib/panel.js";
import { NONE, date, duration, int, line } from "../../lib/format.js";

const TONES = { ok: "good", truncated: "warn" };
export const Status = ({ status }) => html`<${Badge} tone=${TONES[status] ?? "bad"}>${line(status ?? "unknown", 24)}<//>`;

export const seconds = (from, to) => (from && to ? Math.max(0, (date(to) - date(from)) / 1000) : null);
export const took = (step) => duration(seconds(step.started_at, step.finished_at));
// Tokens of the prompt and of the answer: by their ids, or else as the provider counted them.
export const seen = (step) => int(step.prompt_length ?? step.input_tokens);
export const produced = (step) => int(step.response_length ?? step.response_ids?.length ?? step.output_tokens);

// [key, words, tone, what they mean]; `place` is what the tree knows (see lanes.js).
export function marksOf(step, place = {}) {
  const found = [];
  const add = (key, words, tone, title) => found.push([key, words, tone, title]);
  if (place.attempt) add("attempt", place.attempt, "accent", "Steps of the same call");
  if (step.superseded_by) add("superseded", "superseded", "", `The client used ${line(step.superseded_by, 80)} instead`);
  if (place.branch) add("branch", place.branch, "accent", "Several steps go on from the same one");
  if (step.drift) add("drift", "drift", "warn", drift(step));
  if (step.tool_error) add("tool", "tool error", "warn", "A tool result before it says that it is an error");
  if (step.refusal) add("refusal", "refusal", "warn", "The model refused, or the provider withheld the answer");
  if (step.truncated && step.status !== "truncated") add("truncated", "truncated", "warn", "Its answer was cut");
  if (step.side) add("side", "side call", "", "Gets no credit of its trajectory");
  if (step.trainable === false) add("kept-out", "not trained", "", line(step.untrainable_reason ?? "kept out of training", 200));
  for (const label of (step.labels ?? []).slice(0, 4)) add(`label ${label}`, line(label, 24), "", "label");
  return found;
}

function drift(step) {
  const cause = step.drift_cause ? `: ${line(step.drift_cause, 40)}` : "";
  return `Its ids do not go on where its parent's ended${cause}${step.drift_at === null || step.drift_at === undefined ? "" : `, from position ${int(step.drift_at)}`}`;
}

export function Marks({ step, place, bare = false }) {
  const marks = marksOf(step, place);
  if (!marks.length) return bare ? null : NONE;
  return marks.map(([key, words, tone, title]) => html`<${Badge} key=${key} tone=${tone} title=${title}>${words}<//> `);
}
