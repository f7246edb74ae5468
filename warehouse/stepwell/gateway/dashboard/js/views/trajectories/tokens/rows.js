// The tokens themselves: a window of rows over the packed arrays. Only rows in view are in the page.
import { Component, cls, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../../lib/html.js";
import { int } from "../../../lib/format.js";
import { classOf } from "./colour.js";
import { layout, rowOf } from "./layout.js";
import { written } from "./packed.js";

export const ROW = 22; // pixels; the same as in css/trajectories.css
const SPARE = 8; // rows above and below what is seen
const AROUND = 5; // pixels of a token's box beside its letters

export function Rows({ tokens, ids, colour, advantage, drift, chosen, jump, onPoint, onChoose }) {
  const box = useRef(null);
  const size = useSize(box);
  const lines = useMemo(() => (size ? layout(tokens, { ids, width: size.width, letter: size.letter, spare: AROUND }) : null), [tokens, ids, size?.width, size?.letter]);
  const [top, setTop] = useState(0);
  useEffect(() => {
    const element = box.current;
    let frame = 0;
    const soon = () => (frame ||= requestAnimationFrame(() => ((frame = 0), setTop(Math.floor(element.scrollTop / ROW)))));
    element.addEventListener("scroll", soon, { passive: true });
    return () => (element.removeEventListener("scroll", soon), cancelAnimationFrame(frame));
  }, []);
  useLayoutEffect(() => void (lines && reveal(box.current, lines, jump)), [lines, jump]);
  const from = lines ? Math.max(0, Math.min(top, lines.rows - 1) - SPARE) : 0;
  const to = lines ? Math.min(lines.rows, top + Math.ceil(size.height / ROW) + SPARE) : 0;
  const place = (event) => event.target.closest?.("[data-at]")?.dataset.at;
  const over = (event) => onPoint(place(event) === undefined ? null : Number(place(event)));
  const click = (event) => place(event) !== undefined && onChoose(Number(place(event)), event.shiftKey);
  const shown = [];
  for (let row = from; row < to; row++) {
    const start = lines.starts[row];
    const end = lines.starts[row + 1];
    const mine = chosen && chosen.from < end && chosen.to > start ? chosen : null;
    shown.push(row === 0 || row === lines.answer
      ? html`<div key=${row} class="token-head">${row === 0 ? `Prompt, ${int(tokens.prompt)} tokens` : `Answer, ${int(tokens.length - tokens.prompt)} tokens`}</div>`
      : html`<${Row} key=${row} tokens=${tokens} start=${start} end=${end} ids=${ids} colour=${colour} advantage=${advantage} drift=${drift} from=${mine?.from} to=${mine?.to} cursor=${mine?.cursor} />`);
  }
  return html`<div class="token-rows mono" ref=${box} role="region" aria-label="Tokens" tabindex="0" data-rows=${lines?.rows}
      onMouseOver=${over} onMouseLeave=${() => onPoint(null)} onClick=${click} onKeyDown=${(event) => arrow(event, tokens, lines, chosen, onChoose)}>
    <div class="token-all" style=${{ height: `${(lines?.rows ?? 0) * ROW}px` }}><div style=${{ transform: `translateY(${from * ROW}px)` }}>${shown}</div></div>
    <span class="probe" aria-hidden="true">${"0".repeat(50)}</span>
  </div>`;
}

class Row extends Component {
  shouldComponentUpdate(next) {
    for (const name in next) if (next[name] !== this.props[name]) return true;
    return false;
  }

  render({ tokens, start, end, ids, colour, advantage, drift, from, to, cursor }) {
    const boxes = [];
    for (let at = start; at < end; at++) {
      const name = cls("token", at < tokens.prompt && "of-prompt", tokens.samplerOf(at) !== null && "earlier", tokens.trained(at) && "loss", classOf(colour, tokens, at, advantage),
        at === drift && "drifts", at >= from && at < to && "taken", at === cursor && "cursor");
      boxes.push(html`<span key=${at} class=${name} data-at=${at}>${ids ? String(tokens.ids[at]) : written(tokens.textOf(at))}</span>`);
    }
    return html`<div class="token-row">${boxes}</div>`;
  }
}

// How wide a row and a letter are, and how high the window; anew when that changes.
function useSize(box) {
  const [size, setSize] = useState(null);
  useLayoutEffect(() => {
    const element = box.current;
    const look = () => {
      const letter = element.querySelector(".probe").getBoundingClientRect().width / 50;
      const next = { width: element.clientWidth - 16, height: element.clientHeight, letter };
      setSize((old) => (old && old.width === next.width && old.height === next.height && old.letter === letter ? old : next));
    };
    const sizes = new ResizeObserver(look);
    sizes.observe(element);
    look();
    return () => sizes.disconnect();
  }, []);
  return size;
}

// `jump` is {at, row: true} for a heading, or {at} for a token.
function reveal(element, lines, jump) {
  if (!jump) return;
  const row = jump.answer ? lines.answer : rowOf(lines, jump.at);
  const top = row * ROW;
  if (jump.answer) element.scrollTop = top;
  else if (top < element.scrollTop + ROW || top > element.scrollTop + element.clientHeight - 2 * ROW) element.scrollTop = Math.max(0, top - element.clientHeight / 3);
}

// Arrows go from token to token and from row to row; with shift, what lies between is taken.
function arrow(event, tokens, lines, chosen, onChoose) {
  if (!lines || event.ctrlKey || event.metaKey || event.altKey) return;
  const at = chosen?.cursor ?? 0;
  const row = rowOf(lines, at);
  const inRow = (number) => {
    const one = number === lines.answer || number === 0 ? number + Math.sign(number - row || 1) : number;
    if (one < 0 || one >= lines.rows) return at;
    return Math.min(lines.starts[one] + at - lines.starts[row], lines.starts[one + 1] - 1);
  };
  const to = { ArrowRight: at + 1, ArrowLeft: at - 1, ArrowDown: inRow(row + 1), ArrowUp: inRow(row - 1) }[event.key];
  if (to === undefined || to < 0 || to >= tokens.length) return;
  event.preventDefault();
  onChoose(to, event.shiftKey);
}
