// How a step or an event looks in the live tail.
import { html } from "../../lib/html.js";
import { Badge } from "../../lib/panel.js";
import { NONE, date, duration, id, int, line, signed, time } from "../../lib/format.js";

const TONES = { ok: "good", truncated: "warn" };

export const bad = ({ kind, value }) => kind === "step" && (TONES[value.status] !== "good" || Boolean(value.tool_error) || Boolean(value.refusal));

// What the filter looks at, in small letters.
export function words(row) {
  const { value } = row;
  row.words ??= [row.kind, row.id, value.trajectory_id, value.target_id, value.group_id, value.model, value.status, value.source, value.name, value.kind, value.author, value.finish_reason, value.text]
    .filter(Boolean).join(" ").toLowerCase();
  return row.words;
}

export const COLUMNS = [
  { name: "at", label: "When", width: "92px", cell: ({ kind, value }) => time(kind === "step" ? value.finished_at : value.created_at) },
  { name: "kind", label: "What", width: "168px", cell: What },
  { name: "of", label: "Trajectory or target", width: "22%", class: "mono", cell: ({ kind, value }) => (kind === "step" ? id(value.trajectory_id) : `${value.target_kind ?? ""} ${id(value.target_id)}`), title: ({ value }) => line(value.trajectory_id ?? value.target_id ?? "", 400) },
  { name: "id", label: "Step or event", width: "22%", class: "mono", cell: (row) => id(row.id), title: (row) => line(row.id, 400) },
  { name: "model", label: "Model or author", cell: ({ kind, value }) => line((kind === "step" ? value.model : value.author) ?? NONE, 60) },
  { name: "tokens", label: "Tokens", width: "110px", align: "right", cell: ({ kind, value }) => (kind === "step" ? `${int(value.input_tokens ?? value.prompt_length)} + ${int(value.output_tokens ?? value.response_length)}` : "") },
  { name: "took", label: "Took", width: "76px", align: "right", cell: ({ kind, value }) => (kind === "step" ? took(value) : "") },
  { name: "value", label: "Value", width: "80px", align: "right", cell: ({ kind, value }) => signed(kind === "step" ? value.step_reward : value.value) },
];

function What({ kind, value }) {
  if (kind === "step") return html`<${Badge} tone=${TONES[value.status] ?? "bad"}>${line(value.status, 24)}<//>`;
  const said = [value.name === value.kind ? null : value.name, value.text].filter(Boolean).join(": ");
  return html`<span title=${line(said, 400)}><${Badge} tone="accent">${line(value.kind, 24)}<//> ${line(said, 60)}</span>`;
}

const took = ({ started_at: from, finished_at: to }) => (from && to ? duration(Math.max(0, (date(to) - date(from)) / 1000)) : NONE);
