// Server-sent events over fetch, since EventSource cannot send the token: goes on behind the last event after whatever interrupted it.
import { API } from "./api.js";
import { signOut, token } from "./session.js";
import { query } from "./url.js";

const LONGEST = 30_000;

// Pieces of text in, events out: onEvent({kind, data, id}); what `retry:` says goes to onRetry.
export function parser(onEvent, onRetry = () => {}) {
  let rest = "";
  let kind = "message";
  let data = [];
  let id = null;
  const line = (text) => {
    if (text === "") {
      if (data.length) onEvent({ kind, data: data.join("\n"), id });
      kind = "message";
      data = [];
      return;
    }
    const cut = text.indexOf(":");
    if (cut === 0) return; // a comment: the connection lives
    const name = cut < 0 ? text : text.slice(0, cut);
    const value = cut < 0 ? "" : text.slice(cut + (text[cut + 1] === " " ? 2 : 1));
    if (name === "data") data.push(value);
    else if (name === "event") kind = value;
    else if (name === "id") id = value;
    else if (name === "retry" && /^\d+$/.test(value)) onRetry(Number(value));
  };
  return (piece) => {
    const text = rest + piece;
    const whole = text.endsWith("\r") ? text.length - 1 : text.length; // its "\n" may be in the next piece
    let begin = 0;
    for (let at = 0; at < whole; at++) {
      const code = text.charCodeAt(at);
      if (code !== 10 && code !== 13) continue;
      line(text.slice(begin, at));
      if (code === 13 && text.charCodeAt(at + 1) === 10) at++;
      begin = at + 1;
    }
    rest = text.slice(begin);
  };
}

// Listen to an endpoint until the answer is called. onEvent(kind, value, id) gets JSON values; onState({status, error}) one of
// connecting, open, waiting (it comes again by itself), refused (it does not).
export function listen(path, { params = {}, onEvent, onState = () => {} }) {
  const control = new AbortController();
  const at = { id: null, retry: 1000, failures: 0 };
  const run = async () => {
    while (!control.signal.aborted) {
      onState({ status: "connecting" });
      const error = await once(path, params, at, onEvent, onState, control.signal);
      if (control.signal.aborted) return;
      if (error?.final) return onState({ status: "refused", error });
      const wait = Math.min(LONGEST, at.retry * 2 ** at.failures++) * (0.75 + Math.random() / 2);
      onState({ status: "waiting", error, wait });
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, wait);
        control.signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
      });
    }
  };
  run();
  return () => control.abort();
}

async function once(path, params, at, onEvent, onState, signal) {
  const mine = token();
  const headers = { accept: "text/event-stream", authorization: `Bearer ${mine}` };
  if (at.id) headers["last-event-id"] = at.id;
  try {
    const answer = await fetch(`${API}${path}?${query(params)}`, { headers, signal, cache: "no-store" });
    if (!answer.ok) return await refusal(answer, at, mine);
    onState({ status: "open" });
    let problem = null;
    const take = parser(
      ({ kind, data, id }) => {
        at.failures = 0;
        if (id) at.id = id;
        if (kind === "problem") problem = new Error(JSON.parse(data).detail);
        else onEvent(kind, JSON.parse(data), id);
      },
      (ms) => (at.retry = ms),
    );
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let piece; !(piece = await reader.read()).done; ) take(piece.value);
    return problem;
  } catch (error) {
    return error;
  }
}

async function refusal(answer, at, mine) {
  const problem = await answer.json().catch(() => ({}));
  const error = new Error(problem.detail || answer.statusText);
  error.status = answer.status;
  if (answer.status === 401 && mine === token()) signOut();
  if (answer.status === 422 && at.id) at.id = null; // a cursor of another warehouse: begin anew
  else error.final = answer.status < 500 && answer.status !== 429;
  return error;
}
