// When it happened, what was asked for, what it used, and the rest that is known about a step.
import { html } from "../../lib/html.js";
import { Text } from "../../lib/text.js";
import { href } from "../../lib/url.js";
import { NONE, duration, inert, int, num, time } from "../../lib/format.js";
import { seconds } from "./marks.js";
import { Events } from "./events.js";

const NAMED = [
  "step_id", "call_id", "trajectory_id", "group_id", "prompt_id", "split", "parent_id", "turn",
  "model", "model_asked", "policy", "policy_version", "policy_label", "dialect", "engine", "source", "fingerprint", "logprobs_mode", "response_id",
  "finish_reason", "drift_at", "drift_cause", "superseded_by", "content_hash", "commit", "producer", "sequence",
];
const JSONS = [["sampling", "Sampling"], ["usage", "Usage, as the provider gave it"], ["metadata", "Metadata"], ["extra", "What no column models"]];
const LINKS = {
  trajectory_id: (value) => href("trajectories", [value]),
  group_id: (value) => href("trajectories", [], { group_id: value }),
  prompt_id: (value) => href("trajectories", [], { prompt_id: value }),
  superseded_by: (value) => href("trajectories", [], { step: value }),
  parent_id: (value) => href("trajectories", [], { step: value }),
};

export function Details({ step }) {
  const known = NAMED.filter((name) => step[name] !== null && step[name] !== undefined);
  return html`<${Times} step=${step} />
    <h3>Tokens</h3><${Used} step=${step} />
    <h3>Facts</h3><dl class="facts">${known.map((name) => [
      html`<dt key=${name}>${name}</dt>`,
      html`<dd key=${`${name} value`} class="mono">${LINKS[name] ? html`<a href=${LINKS[name](step[name])}>${inert(step[name])}</a>` : inert(step[name])}</dd>`,
    ])}</dl>
    ${JSONS.filter(([name]) => step[name] !== null).map(([name, title]) => html`<h3 key=${name}>${title}</h3><${Text} text=${step[name]} label=${title} />`)}
    ${step.feedback.length > 0 && html`<${Events} events=${step.feedback} title="Judgements that count" />`}`;
}

// The call as a bar: until the first byte, until it said something, until it was over.
function Times({ step }) {
  const whole = seconds(step.started_at, step.finished_at);
  const until = { byte: seconds(step.started_at, step.first_byte_at), token: seconds(step.started_at, step.first_token_at) };
  const answer = step.response_ids?.length ?? step.output_tokens;
  const saying = whole !== null && until.token !== null ? whole - until.token : null;
  const rows = [
    ["Began", time(step.started_at)],
    ["First byte after", duration(until.byte)],
    ["First token after", duration(until.token)],
    ["Ended", time(step.finished_at)],
    ["Took", duration(whole)],
    ["Tokens a second, once it began", saying && answer ? num(answer / saying) : NONE],
  ];
  const mark = until.token ?? until.byte;
  return html`<h3>Times</h3>
    ${whole > 0 && mark !== null && html`<div class="timeline" aria-hidden="true"><i class="waits" style=${{ width: `${(100 * mark) / whole}%` }}>waits</i><i class="says">answers</i></div>`}
    <dl class="facts">${rows.map(([label, value]) => [html`<dt key=${label}>${label}</dt>`, html`<dd key=${`${label} value`} data-figure=${label.toLowerCase()}>${value}</dd>`])}</dl>`;
}

function Used({ step }) {
  const rows = [
    ["Prompt ids", step.prompt_length],
    ["Response ids", step.response_ids?.length],
    ["Input, as counted by the provider", step.input_tokens],
    ["of those cached", step.cached_input_tokens],
    ["Output, as counted by the provider", step.output_tokens],
    ["of those reasoning", step.reasoning_tokens],
  ];
  return html`<dl class="facts">${rows.map(([label, value]) => [html`<dt key=${label}>${label}</dt>`, html`<dd key=${`${label} value`} data-figure=${label.toLowerCase()}>${int(value)}</dd>`])}</dl>`;
}
