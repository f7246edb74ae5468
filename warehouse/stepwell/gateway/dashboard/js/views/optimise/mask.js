// Which tokens of a pack see which: one square per block, as a kernel gets them.
import { html, useEffect, useRef } from "../../lib/html.js";
import { color, useTheme } from "../../lib/theme.js";
import { int, percent } from "../../lib/format.js";

const SIDE = 288; // pixels

export function Mask({ mask }) {
  const canvas = useRef(null);
  const look = useTheme();
  const blocks = mask.partial.length;
  const full = sum(mask.full);
  const partial = sum(mask.partial);
  useEffect(() => {
    const scale = window.devicePixelRatio || 1;
    const side = SIDE * scale;
    canvas.current.width = canvas.current.height = side;
    const paint = canvas.current.getContext("2d");
    paint.fillStyle = color("--sunken");
    paint.fillRect(0, 0, side, side);
    for (const [lists, name] of [[mask.full, "--c1"], [mask.partial, "--c3"]]) {
      paint.fillStyle = color(name);
      lists.forEach((keys, query) => keys.forEach((key) => paint.fillRect((key * side) / blocks, (query * side) / blocks, side / blocks + 0.5, side / blocks + 0.5)));
    }
  }, [mask, look]);
  return html`<figure class="mask"><canvas ref=${canvas} role="img" aria-label=${`Attention mask of rank ${mask.rank}, pack ${mask.number}: ${int(full)} whole and ${int(partial)} partial blocks of ${int(blocks * blocks)}`} />
    <figcaption>The mask of rank ${int(mask.rank)}, pack ${int(mask.number)}: ${int(mask.tokens)} tokens, queries downwards, ${int(mask.block)} ${mask.block === 1 ? "token" : "tokens"} a block.
      <span class="legend"><i class="swatch c1" /> ${int(full)} whole</span> <span class="legend"><i class="swatch c3" /> ${int(partial)} partial</span>${" "}
      <span>${percent(blocks * blocks - full - partial, blocks * blocks)} of the blocks are not computed.</span></figcaption></figure>`;
}

const sum = (lists) => lists.reduce((total, keys) => total + keys.length, 0);
