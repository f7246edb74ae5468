// Numbers, times, and words of others made visible: everything that is shown as text goes through here.
const WHOLE = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const SHORT = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
const FEW = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });
export const NONE = "–";

const known = (value) => value !== null && value !== undefined && Number.isFinite(Number(value));

// 12,345 and 12.3K. What is not known is a dash, never 0.
export const int = (value) => (known(value) ? WHOLE.format(value) : NONE);
export const num = (value) => (known(value) ? (Math.abs(value) < 10_000 ? FEW : SHORT).format(value) : NONE);
// 1 step, 2 steps.
export const many = (count, one, more = `${one}s`) => `${int(count)} ${Number(count) === 1 ? one : more}`;
export const percent = (part, whole) => (whole ? `${FEW.format(Math.round((1000 * part) / whole) / 10)} %` : NONE);
// A reward, an advantage, a logprob: the sign matters.
export const signed = (value, digits = 3) => (known(value) ? `${value < 0 ? "−" : value > 0 ? "+" : ""}${trim(Math.abs(value), digits)}` : NONE);
const trim = (value, digits) => (value >= 10 ** 6 ? SHORT.format(value) : String(Number(value.toFixed(digits))));

export function bytes(value) {
  if (!known(value)) return NONE;
  let size = Number(value);
  let unit = 0;
  while (size >= 1024 && unit < 5) (size /= 1024), unit++;
  return `${FEW.format(Math.round(size * 10) / 10)} ${["B", "KiB", "MiB", "GiB", "TiB", "PiB"][unit]}`;
}

// Seconds as a person says them: 320 ms, 4.2 s, 3 min, 5 h, 2 d.
export function duration(seconds) {
  if (!known(seconds)) return NONE;
  const s = Number(seconds);
  if (s > 0 && s < 1) return `${Math.round(s * 1000)} ms`;
  if (s < 60) return `${FEW.format(Math.round(s * 10) / 10)} s`;
  if (s < 3600) return `${Math.round(s / 60)} min`;
  return s < 172_800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86_400)} d`;
}

// Times come as RFC 3339 or as seconds since 1970.
export const date = (value) => (typeof value === "number" ? new Date(value * 1000) : new Date(value));
const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });

export function time(value) {
  const at = value === null || value === undefined ? NaN : date(value);
  if (Number.isNaN(Number(at))) return NONE;
  const today = at.toDateString() === new Date().toDateString();
  return today ? CLOCK.format(at) : `${DAY.format(at)} ${CLOCK.format(at)}`;
}

export function ago(value, now = Date.now()) {
  const at = value === null || value === undefined ? NaN : Number(date(value));
  return Number.isNaN(at) ? NONE : now - at < 1000 ? "now" : `${duration((now - at) / 1000)} ago`;
}

// Control characters, and those that turn the direction of writing or cannot be seen, shown as what they are. Line ends stay.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e01ef}]/gu;
const LONE = /[\ud800-\udfff]/gu;

export function inert(text) {
  if (text === null || text === undefined) return "";
  const said = typeof text === "string" ? text : typeof text === "object" ? JSON.stringify(text) : String(text);
  return said.replace(HIDDEN, shown).replace(LONE, shown);
}

function shown(character) {
  const code = character.codePointAt(0);
  if (code < 32) return String.fromCharCode(0x2400 + code);
  if (code === 127) return "\u2421";
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

// For one line of a table: inert, without line ends, cut in the middle where it is an id, else at its end.
export function line(text, most = 120) {
  const begin = typeof text === "string" ? text.slice(0, most * 4 + 4) : text;
  const said = inert(begin).replace(/[\n\t]+/g, " ");
  return said.length > most ? `${said.slice(0, most - 1)}…` : said;
}

export function id(text, most = 28) {
  const said = String(text ?? "");
  const keep = most >> 1;
  return inert(said.length > most ? `${said.slice(0, keep)}…${said.slice(-keep + 1)}` : said).replace(/[\n\t]/g, " ") || NONE;
}
