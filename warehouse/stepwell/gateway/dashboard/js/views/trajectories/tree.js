// The tree of a trajectory: a row for each step, lines beside them; only the rows in view are in the page.
import { cls, html, useMemo } from "../../lib/html.js";
import { Badge } from "../../lib/panel.js";
import { Table } from "../../lib/table.js";
import { date, duration, id, int, line, many, signed } from "../../lib/format.js";
import { Marks, Status, produced, seconds, seen, took } from "./marks.js";

const STEP = 14; // pixels between lanes
const ROW = 32;
const MOST = 10; // lanes that are told apart; further ones are drawn over the last
const x = (lane) => 10 + STEP * Math.min(lane, MOST);

export function Tree({ trajectory, drawn, chosen, open, narrow }) {
  const span = useMemo(() => spanOf(trajectory.tree), [trajectory]);
  const columns = useMemo(() => columnsOf(drawn, span, narrow), [drawn, span, narrow]);
  const rows = useMemo(() => drawn.rows.map((row, at) => ({ ...row, at })), [drawn]);
  return html`<div class=${cls("tree", narrow && "narrow")} data-rows=${rows.length}>
    <${Table} label="Steps of the trajectory" columns=${columns} rows=${rows} rowKey="key" onOpen=${(row) => row.node && open(row.node.step_id)}
      onSelect=${(row) => narrow && row?.node && open(row.node.step_id)} mark=${(row) => cls(row.head && "conversation", row.node && row.node.step_id === chosen && "current")} />
  </div>`;
}

function columnsOf(drawn, span, narrow) {
  const of = (cell) => ({ node }) => (node ? cell(node) : "");
  const first = drawn.rows.find((one) => one.node)?.node;
  const all = [
    { name: "step", label: "Step", cell: (row) => (row.head ? html`<${Head} head=${row.head} first=${first} />` : html`<${Place} row=${row} drawn=${drawn} />`), title: ({ node }) => node && line(node.step_id, 400) },
    { name: "status", label: "Status", width: "92px", wide: true, cell: of((node) => html`<${Status} status=${node.status} />`) },
    { name: "turn", label: "Turn", width: "56px", align: "right", wide: true, cell: of((node) => int(node.turn)) },
    { name: "prompt", label: "Prompt", width: "72px", align: "right", cell: of(seen) },
    { name: "answer", label: "Answer", width: "70px", align: "right", cell: of(produced) },
    { name: "reward", label: "Reward", width: "76px", align: "right", wide: true, cell: of((node) => signed(node.step_reward)) },
    { name: "took", label: "Took", width: "74px", align: "right", wide: true, cell: of(took) },
    { name: "when", label: "When", width: "22%", wide: true, cell: of((node) => html`<${When} node=${node} span=${span} />`) },
  ];
  return all.filter((column) => !narrow || !column.wide);
}

function Place({ row, drawn }) {
  const { node, lane, place, at } = row;
  const bad = node.status !== "ok";
  return html`<span class="place"><${Lines} at=${at} lane=${lane} drawn=${drawn} bad=${bad} />
    <span class="mono">${id(node.step_id, 26)}</span><span class="marks">${bad && html`<${Badge} tone="bad">${line(node.status, 24)}<//> `}<${Marks} step=${node} place=${place} bare /></span></span>`;
}

function Head({ head: { number, steps, ends, node }, first }) {
  const agent = node?.agent && node.agent !== first?.agent ? `Sub-agent ${line(node.agent, 40)}` : null;
  const name = number === 0 ? "The agent's conversation" : agent ?? "Sub-agent, or begun anew";
  return html`<span class="conversation-name"><b>${name}</b> <span class="dim">${many(steps, "step")}${ends.length > 1 ? `, ${int(ends.length)} ends` : ""}</span></span>`;
}

// The part of the lines that lies in this row: lines that pass, begin, end, or leave to the right; and the step itself.
function Lines({ at, lane, drawn, bad }) {
  const paths = [];
  for (const chain of drawn.chains) {
    if (at < chain.start || at > chain.end) continue;
    const here = x(chain.lane);
    if (at === chain.start && chain.from !== null) {
      paths.push([chain.lane, `M${x(chain.from)} 16C${x(chain.from)} 28 ${here} 20 ${here} ${ROW}`]);
    } else if (chain.start < chain.end) {
      paths.push([chain.lane, `M${here} ${at === chain.start ? 16 : 0}V${at === chain.end ? 16 : ROW}`]);
    }
  }
  const width = x(Math.max(drawn.lanes - 1, 0)) + 10;
  return html`<svg class="lines" width=${width} height=${ROW} viewBox="0 0 ${width} ${ROW}" aria-hidden="true">
    ${paths.map(([number, path]) => html`<path key=${`${number} ${path}`} class=${`lane l${number % 6}`} d=${path} />`)}
    <circle class=${cls("dot", `l${lane % 6}`, bad && "bad")} cx=${x(lane)} cy="16" r="4.5" />
  </svg>`;
}

function spanOf(nodes) {
  const begun = nodes.map((node) => node.started_at ?? node.finished_at).filter(Boolean).map((moment) => Number(date(moment)));
  const ended = nodes.map((node) => node.finished_at).filter(Boolean).map((moment) => Number(date(moment)));
  const least = begun.reduce((a, b) => Math.min(a, b), Infinity);
  const most = ended.reduce((a, b) => Math.max(a, b), -Infinity);
  return most > least ? { from: least, length: most - least } : null;
}

// When it ran, as a bar over the time of the whole trajectory.
function When({ node, span }) {
  if (!span || !node.finished_at) return "";
  const from = Number(date(node.started_at ?? node.finished_at)) - span.from;
  const lasted = (seconds(node.started_at, node.finished_at) ?? 0) * 1000;
  const style = { left: `${(100 * from) / span.length}%`, width: `${(100 * lasted) / span.length}%` };
  return html`<span class="when" title=${`${duration(from / 1000)} after the first step began, for ${duration(lasted / 1000)}`}><i style=${style} /></span>`;
}
