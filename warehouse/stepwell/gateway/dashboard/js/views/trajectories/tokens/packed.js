// A step's tokens as packed arrays: ids, logprobs and texts in three buffers, so that a hundred thousand of them are a megabyte or two.
import { get } from "../../../lib/api.js";
import { inert } from "../../../lib/format.js";

const AT_ONCE = 65_536; // tokens of one answer

// For useApi: all pieces of a step's tokens, packed.
export async function packed(path, params, options) {
  const first = await get(path, { from: 0, to: AT_ONCE }, options);
  const tokens = new Tokens(first);
  tokens.put(first);
  for (let from = first.to; from < first.length; from += AT_ONCE) tokens.put(await get(path, { from, to: from + AT_ONCE }, options));
  return tokens.closed();
}

export class Tokens {
  constructor(head) {
    const { prompt_ids: _, response_ids: __, logprobs, texts, ...facts } = head;
    Object.assign(this, facts);
    this.prompt = head.prompt_length;
    this.ids = new Int32Array(head.length);
    this.logprobs = logprobs === null ? null : new Float32Array(head.response_length).fill(NaN);
    this.pieces = texts === null ? null : [];
    this.ends = texts === null ? null : new Uint32Array(head.length); // where each text ends in `text`
    this.size = 0;
  }

  put({ from, to, prompt_ids: prompt, response_ids: response, logprobs, texts }) {
    this.ids.set(prompt, from);
    this.ids.set(response, from + prompt.length);
    if (this.logprobs && logprobs) this.logprobs.set(logprobs.map((one) => one ?? NaN), Math.max(0, from - this.prompt));
    if (!this.pieces || !texts) return;
    for (let at = from; at < to; at++) this.ends[at] = this.size += texts[at - from].length;
    this.pieces.push(texts.join(""));
  }

  closed() {
    this.text = this.pieces?.join("") ?? null;
    this.pieces = null;
    return this;
  }

  textOf(at) {
    return this.text === null ? null : this.text.slice(at === 0 ? 0 : this.ends[at - 1], this.ends[at]);
  }

  // Of the answer's tokens; NaN for those of the prompt.
  logprobOf(at) {
    return this.logprobs === null || at < this.prompt ? NaN : this.logprobs[at - this.prompt];
  }

  // Whether there is a loss on it.
  trained(at) {
    return this.mask.some(([from, to]) => from <= at && at < to);
  }

  // The earlier step whose answer it was, or null.
  samplerOf(at) {
    return at < this.prompt ? this.sampled.find(({ from, to }) => from <= at && at < to)?.step_id ?? null : null;
  }

  textBetween(from, to) {
    return this.text.slice(from === 0 ? 0 : this.ends[from - 1], to === 0 ? 0 : this.ends[to - 1]);
  }
}

// How a token is written in its box: spaces and line ends as signs, hidden characters as what they are.
export function written(text) {
  if (text === "") return "∅";
  return inert(text.length > 200 ? `${text.slice(0, 200)}…` : text).replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/ /g, "·");
}
