// Painting the tree, and finding what is painted at a place.
import { color } from "../../lib/theme.js";
import { int } from "../../lib/format.js";

export const ROW = 26;
const LEAST = 0.5; // pixels of what is painted at all
const LETTER = 7;

// Of the tree, what lies between `top` and `top + height`: a deep one is taller than any canvas may be.
export function draw(canvas, tree, width, { top, height }, marked) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const paint = canvas.getContext("2d");
  const colors = Object.fromEntries(["panel", "ink", "sunken", "c1", "c2", "line", "accent", "on-accent"].map((name) => [name, color(`--${name}`)]));
  paint.setTransform(scale, 0, 0, scale, 0, -top * scale);
  paint.font = `12px ${getComputedStyle(canvas).fontFamily}`;
  paint.textBaseline = "middle";
  const most = tree.rows.reduce((found, one) => Math.max(found, one.steps), 2);
  const seen = tree.rows.filter(({ depth }) => (depth + 1) * ROW > top && depth * ROW < top + height);
  for (const one of seen) part(paint, one, tree, width, colors, most, one.node === marked);
}

// Its own tokens are solid (the more steps share them, the stronger), what goes on from it is a light band; sampled tokens stand out below.
function part(paint, one, tree, width, colors, most, marked) {
  const { x, y, w, own } = place(one, tree, width);
  if (w < LEAST) return;
  paint.fillStyle = colors.sunken;
  paint.fillRect(x, y, w, ROW - 2);
  paint.globalAlpha = 0.35 + (0.65 * Math.log(one.steps)) / Math.log(most);
  paint.fillStyle = colors.c1;
  paint.fillRect(x, y, own, ROW - 2);
  paint.globalAlpha = 1;
  if (one.sampled && one.tokens) {
    const part = (own * one.sampled) / one.tokens;
    paint.fillStyle = colors.c2;
    paint.fillRect(x + own - part, y + ROW - 7, part, 5);
  }
  if (w > 3) {
    paint.fillStyle = colors.panel;
    paint.fillRect(x + w - 1, y, 1, ROW - 2);
  }
  if (marked) {
    paint.strokeStyle = colors.ink;
    paint.lineWidth = 2;
    paint.strokeRect(x + 1, y + 1, Math.max(1, w - 2), ROW - 4);
  }
  const words = `${int(one.tokens)} × ${int(one.steps)}`;
  if (w > words.length * LETTER + 8) {
    const inside = own > words.length * LETTER + 8;
    paint.fillStyle = inside && one.steps > Math.sqrt(most) ? colors["on-accent"] : colors.ink;
    paint.fillText(words, inside ? x + 5 : Math.min(x + own + 5, x + w - words.length * LETTER), y + ROW / 2 - 3);
  }
}

function place(one, tree, width) {
  const unit = width / Math.max(1, tree.width);
  const w = (one.x1 - one.x0) * unit;
  const own = tree.by === "tokens" ? Math.min(w, one.tokens * unit) : w;
  return { x: one.x0 * unit, y: one.depth * ROW, w, own };
}

export function found(tree, width, x, y) {
  const depth = Math.floor(y / ROW);
  return tree.rows.find((one) => {
    if (one.depth !== depth) return false;
    const { x: from, w } = place(one, tree, width);
    return x >= from && x < from + w;
  });
}
