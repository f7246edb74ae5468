// The colour of a token, as the name of a class: no token has a style of its own.
export const COLOURS = [["logprob", "logprob"], ["advantage", "advantage"], ["mask", "loss mask"], ["none", "none"]];

const LEAST = [0.9, 0.7, 0.5, 0.3, 0.1, 0.01]; // probabilities: lp0 is at least the first, lp6 less than the last
const STRONG = [0.25, 0.5, 1]; // advantages, either sign

export function classOf(colour, tokens, at, advantage) {
  if (colour === "mask") return tokens.trained(at) ? "masked" : "";
  if (colour === "logprob") {
    const logprob = tokens.logprobOf(at);
    if (Number.isNaN(logprob)) return "";
    const level = LEAST.findIndex((least) => Math.exp(logprob) >= least);
    return `lp${level < 0 ? LEAST.length : level}`;
  }
  if (colour === "advantage" && advantage && tokens.trained(at)) {
    const level = STRONG.findIndex((most) => Math.abs(advantage) <= most);
    return `${advantage > 0 ? "up" : "down"}${level < 0 ? STRONG.length : level}`;
  }
  return "";
}

// [class, words] of the key beside the tokens.
export function keyOf(colour) {
  if (colour === "mask") return [["masked", "there is a loss on it"]];
  if (colour === "logprob") return [["lp0", "p ≥ 0.9"], ["lp2", "≥ 0.5"], ["lp4", "≥ 0.1"], ["lp6", "< 0.01"]];
  if (colour === "advantage") return [["down3", "below −1"], ["down1", "to −0.25"], ["up1", "from +0.25"], ["up3", "above +1"]];
  return [];
}
