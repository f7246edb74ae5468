// Who is signed in. The token comes in the fragment of the address (`#token=…`), which no server and no log sees, or by the form.
// It is kept for this tab, and handed to other tabs of this gateway that ask; only on request is it kept for the next time.
import { decoded } from "./url.js";

const KEY = "stepwell.token";
const listeners = new Set();
const channel = "BroadcastChannel" in self ? new BroadcastChannel("stepwell") : null;
let current = null;

export const token = () => current;

export function signIn(value, remember = false) {
  set(value.trim());
  sessionStorage.setItem(KEY, current);
  if (remember) localStorage.setItem(KEY, current);
}

// The token is not good any more; or, `everywhere`, the user has had enough: other tabs forget it, too.
export function signOut({ everywhere = false } = {}) {
  sessionStorage.removeItem(KEY);
  localStorage.removeItem(KEY);
  set(null);
  if (everywhere) channel?.postMessage({ kind: "out" });
}

// Called with the token or null whenever it changes; the answer ends that.
export function onSession(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const isToken = (value) => /^[\x21-\x7e]+$/.test(value);

// The token of this visit, from wherever there is one; at once takes it out of the address and the history.
export async function begin() {
  const given = /^#token=([^&]+)/.exec(location.hash);
  if (given) {
    history.replaceState(null, "", `${location.pathname}#/`);
    const said = decoded(given[1]);
    if (isToken(said)) signIn(said);
    dispatchEvent(new Event("stepwell:visit"));
  } else {
    const known = sessionStorage.getItem(KEY) || localStorage.getItem(KEY) || (await ask());
    if (known) signIn(known);
  }
  return current;
}

function set(value) {
  current = value || null;
  for (const listener of listeners) listener(current);
}

function ask() {
  return new Promise((resolve) => {
    if (!channel) return resolve(null);
    const done = (value) => {
      clearTimeout(timer);
      channel.removeEventListener("message", heard);
      resolve(value);
    };
    const heard = ({ data }) => data?.kind === "token" && done(data.token);
    const timer = setTimeout(done, 150, null);
    channel.addEventListener("message", heard);
    channel.postMessage({ kind: "who" });
  });
}

channel?.addEventListener("message", ({ data }) => {
  if (data?.kind === "who" && current) channel.postMessage({ kind: "token", token: current });
  if (data?.kind === "out" && current) signOut();
});

// The address that signs in may be opened where the page is already.
addEventListener("hashchange", () => location.hash.startsWith("#token=") && begin());
