// The prefix tree: tokens from left to right as they would be computed, once each; what hangs under a part goes on from it.
import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../../lib/html.js";
import { Choice, Panel } from "../../lib/panel.js";
import { href } from "../../lib/url.js";
import { id, int, line } from "../../lib/format.js";
import { useKeys } from "../../lib/keys.js";
import { useTheme } from "../../lib/theme.js";
import { ROW, draw, found } from "./draw.js";

const TALLEST = 640; // pixels; what is below is scrolled to

export function Icicle({ tree, by, zoom, setBy, loading }) {
  const canvas = useRef(null);
  const [width, setWidth] = useState(0);
  const [top, setTop] = useState(0);
  const [hover, setHover] = useState(null);
  const [chosen, setChosen] = useState(null);
  const look = useTheme();
  const rows = useMemo(() => new Map(tree.rows.map((one) => [one.node, one])), [tree]);
  const whole = (tree.rows.reduce((most, one) => Math.max(most, one.depth), 0) + 1) * ROW;
  const height = Math.min(whole, TALLEST);
  useLayoutEffect(() => (setHover(null), setChosen(null), setTop(0)), [tree.node, tree.selection, tree.by]);
  useEffect(() => {
    const box = canvas.current.parentElement;
    const sizes = new ResizeObserver(() => setWidth(box.clientWidth));
    sizes.observe(box);
    return () => sizes.disconnect();
  }, []);
  useEffect(() => void (width && draw(canvas.current, tree, width, { top, height }, chosen ?? hover)), [tree, width, look, hover, chosen, top, height]);
  const at = (event) => {
    const box = canvas.current.getBoundingClientRect();
    return found(tree, width, event.clientX - box.left, event.clientY - box.top + top);
  };
  const up = () => tree.path.length && zoom(tree.path.length > 1 ? tree.path[tree.path.length - 2].node : null);
  const move = (next) => {
    if (!next) return;
    setChosen(next.node);
    const [scrolled, y] = [canvas.current.closest(".icicle"), next.depth * ROW];
    if (y < top || y + ROW > top + height) scrolled.scrollTop = y - height / 2;
  };
  const here = rows.get(chosen) ?? tree.rows[0];
  useKeys({
    ArrowRight: ["next part beside it", () => move(beside(tree.rows, here, 1))],
    ArrowLeft: ["part before it", () => move(beside(tree.rows, here, -1))],
    ArrowDown: ["what goes on from it", () => move(tree.rows.find((one) => one.parent === here.node) ?? here)],
    ArrowUp: ["what it goes on from", () => move(rows.get(here.parent) ?? here)],
    Enter: ["look into the part", () => here && here.node !== tree.node && zoom(here.node)],
    Backspace: ["look at the whole again", up],
  });
  const shown = rows.get(chosen ?? hover) ?? null;
  const tools = html`<${Choice} label="Width by" value=${by} options=${[["tokens", "by tokens"], ["steps", "by steps"]]} onChange=${setBy} />`;
  return html`<${Panel} title="Prefix tree" hint=${loading ? "asking…" : `${int(tree.rows.length)} parts drawn${tree.cut.nodes ? `, ${int(tree.cut.nodes)} too narrow` : ""}`} tools=${tools}>
    <${Path} tree=${tree} zoom=${zoom} />
    <div class="icicle" style=${{ maxHeight: `${TALLEST}px` }} onScroll=${(event) => setTop(Math.max(0, Math.min(event.currentTarget.scrollTop, whole - height)))}>
      <div style=${{ height: `${whole}px` }}><canvas ref=${canvas} role="img" aria-label=${`Prefix tree of ${line(tree.selection)}: ${int(tree.tokens.merged)} tokens in ${int(tree.nodes)} parts; the table below has the largest savings`}
        onMouseMove=${(event) => setHover(at(event)?.node ?? null)} onMouseLeave=${() => setHover(null)}
        onClick=${(event) => { const one = at(event); if (one && one.node !== tree.node) zoom(one.node); }} /></div>
    </div>
    <p class="told" aria-live="polite">${shown ? html`<${Told} node=${shown} />` : html`<span class="dim">Point at a part; click, or go with the arrow keys and <kbd>Enter</kbd>, to look into it. Sampled tokens are ${by === "tokens" ? "orange" : "marked orange"}.</span>`}</p>
  <//>`;
}

function Path({ tree, zoom }) {
  if (!tree.path.length) return null;
  return html`<nav class="path" aria-label="Where in the tree"><button type="button" class="small bare" onClick=${() => zoom(null)}>the whole</button>
    ${tree.path.map((one, at) => html` › ${at === tree.path.length - 1 ? html`<b>${words(one)}</b>` : html`<button key=${one.node} type="button" class="small bare" onClick=${() => zoom(one.node)}>${words(one)}</button>`}`)}</nav>`;
}

const words = (one) => `${int(one.tokens)} tokens from ${int(one.position)}`;

function Told({ node }) {
  return html`<b>${int(node.tokens)}</b> tokens from position ${int(node.position)} (${int(node.sampled)} sampled), shared by <b>${int(node.steps)}</b> ${node.steps === 1 ? "step" : "steps"}: saves <b>${int(node.saved)}</b>;
    with all that goes on from it ${int(node.subtree_tokens)} tokens, ${int(node.subtree_saved)} saved. ${node.cut ? `${int(node.cut.nodes)} narrower parts are not drawn. ` : ""}
    <a class="mono" href=${href("curate", ["step", node.step_id])} title=${line(node.step_id, 400)}>${id(node.step_id, 36)}</a>`;
}

function beside(rows, here, way) {
  const level = rows.filter((one) => one.depth === here.depth).sort((a, b) => a.x0 - b.x0);
  return level[level.indexOf(here) + way];
}
