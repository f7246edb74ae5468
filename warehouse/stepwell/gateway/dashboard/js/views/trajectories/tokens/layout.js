// Which tokens stand in which row: packed, so that rows are found without looking at tokens. Rows 0 and `answer` are headings.
import { written } from "./packed.js";

// Letters of double width; those of two code units (pictures, mostly) count twice as they are.
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]/g;
const PLAIN = /^[ -~]*$/;

// Letters that a token takes; `ids`: as a number.
function letters(tokens, at, ids) {
  if (ids) return String(tokens.ids[at]).length;
  const text = tokens.textOf(at);
  if (PLAIN.test(text) && text.length > 0 && text.length <= 200) return text.length;
  const said = written(text);
  return said.length + (said.match(WIDE)?.length ?? 0);
}

// `width`: pixels of a row, `letter`: of a letter, `spare`: around a token. {starts, rows, answer}; row r holds starts[r] up to starts[r + 1].
export function layout(tokens, { ids, width, letter, spare }) {
  const { length, prompt } = tokens;
  let starts = new Uint32Array(Math.max(64, length >> 3));
  let rows = 0;
  const begin = (at) => {
    if (rows + 2 > starts.length) {
      const more = new Uint32Array(starts.length * 2);
      more.set(starts);
      starts = more;
    }
    starts[rows++] = at;
  };
  let answer = -1;
  const section = (from, to) => {
    begin(from); // the heading: an empty row
    let used = Infinity;
    for (let at = from; at < to; at++) {
      const takes = Math.min(width, letters(tokens, at, ids) * letter + spare);
      if (used + takes > width) {
        begin(at);
        used = 0;
      }
      used += takes;
      if (!ids && tokens.textOf(at).endsWith("\n")) used = Infinity;
    }
  };
  section(0, prompt);
  answer = rows;
  section(prompt, length);
  starts[rows] = length;
  return { starts: starts.slice(0, rows + 1), rows, answer, ids };
}

// The row in which a token stands.
export function rowOf({ starts, rows }, at) {
  let low = 0;
  let high = rows - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (starts[middle] <= at) low = middle;
    else high = middle - 1;
  }
  return low;
}
