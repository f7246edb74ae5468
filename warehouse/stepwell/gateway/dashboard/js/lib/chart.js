// Figures over time: <${Chart} label="Steps" start=${seconds} bucket=${60} series=${[{key, label, values}]} kind="stack" />.
// `kind`: "stack" (amounts, one upon the other) or "line". A value may be null. uPlot is loaded with the first chart.
import { html, useEffect, useRef, useState } from "./html.js";
import { num } from "./format.js";
import { style } from "./style.js";
import { color, useTheme } from "./theme.js";

export const COLORS = 8;
let library = null;
const loaded = () => (library ??= Promise.all([import("../../vendor/uplot-1.6.32.js"), style("vendor/uplot-1.6.32.css")]).then(([{ default: uPlot }]) => uPlot));

export function Chart({ label, start, bucket, series, kind = "line", height = 160, format = num }) {
  const box = useRef(null);
  const chart = useRef(null);
  const [at, setAt] = useState(null);
  const look = useTheme();
  const names = series.map((one) => one.key).join("\n");
  useEffect(() => {
    let gone = false;
    loaded().then((uPlot) => {
      if (gone || !box.current) return;
      chart.current = new uPlot(options(uPlot, box.current.clientWidth, height, series, kind, format, setAt), data(start, bucket, series, kind), box.current);
    });
    const sizes = new ResizeObserver(() => {
      const width = box.current?.clientWidth;
      if (chart.current && width && width !== chart.current.width) chart.current.setSize({ width, height });
    });
    sizes.observe(box.current);
    return () => {
      gone = true;
      sizes.disconnect();
      chart.current?.destroy();
      chart.current = null;
    };
  }, [names, kind, look, height]);
  useEffect(() => chart.current?.setData(data(start, bucket, series, kind)), [start, bucket, series]);
  const said = series.map(({ values }) => (kind === "stack" ? values.reduce((sum, value) => sum + (value ?? 0), 0) : values.findLast((value) => value !== null)));
  const none = series.every((one) => one.values.every((value) => value === null || (kind === "stack" && !value)));
  return html`<figure class="chart">
    <div ref=${box} role="img" aria-label=${`${label}: ${series.map((one, i) => `${one.label} ${format(said[i])}`).join(", ") || "nothing"}`} style=${{ height: `${height}px` }} />
    <figcaption>
      <span class="dim">${at === null ? "" : clock(start + at * bucket)}</span>
      ${none && html`<span class="dim">none in this time</span>`}
      ${!none && series.map((one, i) => html`<span key=${one.key} class="legend"><i class="swatch c${(i % COLORS) + 1}" />${one.label}
        ${at !== null && html`<b>${format(one.values[Math.min(at, one.values.length - 1)])}</b>`}</span>`)}
    </figcaption>
  </figure>`;
}

const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

const WHOLE = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

// Stacked amounts are drawn from the whole sum down to the first, each over the one before it.
function data(start, bucket, series, kind) {
  const count = Math.max(0, ...series.map((one) => one.values.length));
  const times = Array.from({ length: count }, (_, i) => start + i * bucket);
  if (kind !== "stack") return [times, ...series.map((one) => one.values)];
  const sums = [];
  const below = new Array(count).fill(0);
  for (const one of series) {
    const sum = one.values.map((value, i) => (below[i] += value ?? 0));
    sums.push([...sum, sum.at(-1)]); // the last piece of time has a width, too
  }
  return [[...times, start + count * bucket], ...sums.reverse()];
}

function options(uPlot, width, height, series, kind, format, onCursor) {
  const [ink, grid] = [color("--dim"), color("--line")];
  const whole = series.every((one) => one.values.every((value) => Number.isInteger(value ?? 0))) && kind === "stack";
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: `11px ${getComputedStyle(document.body).fontFamily}` };
  const drawn = series.map((one, i) => {
    const stroke = color(`--c${(i % COLORS) + 1}`);
    const stacked = { fill: stroke, width: 0, points: { show: false }, paths: uPlot.paths.stepped({ align: 1 }) };
    return { label: one.label, stroke, ...(kind === "stack" ? stacked : { width: 2, spanGaps: true, points: { show: true, size: 5, fill: stroke } }) };
  });
  return {
    width,
    height,
    padding: [10, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [low < 0 ? low * 1.1 : 0, high > 0 ? high * 1.1 : low < 0 ? 0 : 1] } },
    axes: [{ ...axis, size: 26, space: 70, values: "{HH}:{mm}" }, { ...axis, size: 52, space: 34, ...(whole && { incrs: WHOLE }), values: (_, ticks) => ticks.map((tick) => format(tick)) }],
    series: [{}, ...(kind === "stack" ? drawn.reverse() : drawn)],
    hooks: { setCursor: [({ cursor }) => onCursor(cursor.idx ?? null)] },
  };
}
