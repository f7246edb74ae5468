// Steps, tokens, errors and rewards over time, split by one thing.
import { html, useMemo } from "../../lib/html.js";
import { Asked, Choice, Panel } from "../../lib/panel.js";
import { COLORS, Chart } from "../../lib/chart.js";
import { date, int, line, num, signed } from "../../lib/format.js";
import { useApi } from "../../lib/api.js";

// [name, words, bucket in seconds, buckets]
export const WINDOWS = [
  ["15m", "15 min", 15, 60],
  ["1h", "1 h", 60, 60],
  ["6h", "6 h", 360, 60],
  ["24h", "24 h", 1440, 60],
];
const BY = [["source", "source"], ["agent", "agent"], ["model", "model"], ["policy_version", "policy version"], ["status", "status"]];
const SHOWN = [
  ["steps", "Steps", "stack", int],
  ["tokens", "Tokens", "stack", num],
  ["errors", "Errors", "stack", int],
  ["reward_mean", "Mean reward", "line", (value) => signed(value, 2)],
];

export function Charts({ window: [, words, bucket, buckets], by, go }) {
  return html`<${Panel} title="Over time" hint=${`the last ${words}, by when they finished`}
    tools=${html`<${Choice} label="Split by" value=${by} options=${BY} onChange=${(value) => go({ by: value })} />`}>
    <div class="charts">${SHOWN.map(([of, title, kind, format]) => html`<${One} key=${of} of=${of} title=${title} kind=${kind} format=${format} by=${by} bucket=${bucket} buckets=${buckets} />`)}</div>
  <//>`;
}

function One({ of, title, kind, format, by, bucket, buckets }) {
  const asked = useApi("/stats/series", { of, by, bucket, buckets }, { every: Math.max(5000, bucket * 250) });
  return html`<div class="one"><h3>${title}</h3><${Asked} of=${asked}>${(said) => html`<${Drawn} said=${said} title=${title} kind=${kind} format=${format} />`}<//></div>`;
}

function Drawn({ said, title, kind, format }) {
  const series = useMemo(() => foldedTo(COLORS, said.series, kind).map((one) => ({ ...one, label: one.other ? "others" : line(one.key ?? "not known", 40), key: `${one.other ? "o" : ""}${one.key}` })), [said]);
  const start = typeof said.start === "number" ? said.start : Number(date(said.start)) / 1000;
  return html`<${Chart} label=${title} start=${start} bucket=${said.bucket_s} series=${series} kind=${kind} format=${format} height=${150} />`;
}

// No more lines than there are colours: those behind the last one are summed up (of means, left out).
function foldedTo(most, series, kind) {
  if (series.length <= most || kind === "line") return series.slice(0, most);
  const rest = series.slice(most - 1);
  const values = rest[0].values.map((_, at) => rest.reduce((all, one) => all + (one.values[at] ?? 0), 0));
  return [...series.slice(0, most - 1), { key: null, other: true, values }];
}
