// The gateway's interface. Everything that is shown comes through here.
import { useCallback, useEffect, useRef, useState } from "./html.js";
import { signOut, token } from "./session.js";
import { query } from "./url.js";

export const API = "/api/v1";
const ATTEMPTS = 3;

// A refusal: the members of the problem document (RFC 9457), and what was asked.
export class ApiError extends Error {
  constructor(status, problem, asked) {
    super(problem.detail || problem.title || `status ${status}`);
    Object.assign(this, { status, asked, title: problem.title, field: problem.field, items: problem.items, problem });
  }
}

// A parsed answer, or ApiError. `path` is under /api/v1, ids in it encoded (see `at`). Reading is repeated where the gateway asks for it.
export const get = (path, params, options) => ask("GET", path, { params, ...options });
export const post = (path, body, options) => ask("POST", path, { body, ...options });
export const put = (path, body, options) => ask("PUT", path, { body, ...options });
export const del = (path, params, options) => ask("DELETE", path, { params, ...options });

// A path with ids in it: at`/steps/${id}/tokens`.
export const at = (parts, ...ids) => String.raw({ raw: parts }, ...ids.map(encodeURIComponent));

// The raw answer, for what is no JSON: text, files. `path` may be absolute ("/metrics").
export async function fetchRaw(method, path, { params, body, signal, headers = {} } = {}) {
  const said = params ? query(params) : "";
  const url = (path.startsWith("/metrics") ? path : API + path) + (said ? `?${said}` : "");
  const all = { accept: "application/json", ...headers };
  const mine = token();
  if (mine) all.authorization = `Bearer ${mine}`;
  if (body !== undefined) all["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(url, { method, signal, headers: all, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { title: "No answer", detail: "the gateway cannot be reached: does `stepwell up` still run?" }, url);
  }
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({ title: answer.statusText }));
  const error = new ApiError(answer.status, problem, `${method} ${url}`);
  error.retryAfter = Number(answer.headers.get("retry-after")) || 0;
  if (answer.status === 401 && mine === token()) signOut();
  throw error;
}

async function ask(method, path, options) {
  for (let attempt = 1; ; attempt++) {
    try {
      const answer = await fetchRaw(method, path, options);
      return answer.status === 204 ? null : await answer.json();
    } catch (error) {
      const again = method === "GET" && attempt < ATTEMPTS && (error.status === 503 || error.status === 429);
      if (!again) throw error;
      await pause(Math.min(5, error.retryAfter || 1) * 1000 * attempt, options.signal);
    }
  }
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => (clearTimeout(timer), reject(signal.reason)), { once: true });
  });
}

// In a component: const {data, error, loading, reload} = useApi("/stats", {}, {every: 5000}).
// A question that is outdated is cancelled; the old answer stays (`stale` true) until the new one is there. `path` null asks nothing.
// `every`: asked again so often, while the page is visible and nothing is on its way. `load` may replace `get` (text answers, say).
export function useApi(path, params, { every = 0, load = get } = {}) {
  const key = path === null ? null : `${path}?${query(params)}`;
  const [state, setState] = useState({ key: null, data: null, error: null, loading: true });
  const running = useRef(null);
  const run = useCallback(async () => {
    running.current?.abort();
    running.current = null;
    if (key === null) return;
    const control = (running.current = new AbortController());
    setState((old) => ({ ...old, error: old.key === key ? old.error : null, loading: true }));
    try {
      const data = await load(path, params, { signal: control.signal });
      if (!control.signal.aborted) setState({ key, data, error: null, loading: false });
    } catch (error) {
      if (!control.signal.aborted) setState((old) => ({ key, error, loading: false, data: old.key === key ? old.data : null }));
    }
    if (running.current === control) running.current = null;
  }, [key]);
  useEffect(() => {
    run();
    return () => running.current?.abort();
  }, [run]);
  const poll = useCallback(() => void (running.current ?? run()), [run]);
  useEffect(() => (every ? repeat(poll, every) : undefined), [poll, every]);
  return { ...state, stale: state.key !== key, reload: run, poll };
}

// Call so often while the page is visible, and at once when it comes to be seen again; the answer ends that.
export function repeat(work, every) {
  let last = performance.now();
  const due = () => {
    if (document.hidden || performance.now() - last < every - 50) return;
    last = performance.now();
    work();
  };
  const timer = setInterval(due, every);
  document.addEventListener("visibilitychange", due);
  return () => (clearInterval(timer), document.removeEventListener("visibilitychange", due));
}
