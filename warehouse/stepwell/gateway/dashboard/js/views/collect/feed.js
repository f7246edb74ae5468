// What the live tail keeps: the newest rows, how fast they come, and what waits while it is paused. No part of it is a component, so
// that fifty steps a second cost one render for each frame of the screen.
import { listen } from "../../lib/sse.js";

export const MOST = 500;
const SECONDS = 10; // over which the rate is a mean

export class Feed {
  constructor(onChange) {
    this.onChange = onChange;
    this.rows = []; // the newest first
    this.seen = new Set();
    this.waiting = []; // come since the last frame, or while paused; the oldest first
    this.passed = 0; // of those that came while paused, how many are no longer kept
    this.received = { step: 0, event: 0 };
    this.state = { status: "connecting" };
    this.paused = false;
    this.counts = new Map(); // of the last seconds, by second
    this.frame = 0;
  }

  // `onOpen`: what comes from now on comes here, and what was before can be asked for.
  start(onOpen) {
    const onState = (state) => {
      if (state.status !== "connecting") onOpen(), (onOpen = () => {});
      this.say(state);
    };
    this.stop = listen("/stream", { onEvent: (kind, value) => this.take(kind, value), onState });
    this.clock = setInterval(() => this.soon(), 1000); // the rate falls when nothing comes, too
  }

  close() {
    this.stop?.();
    clearInterval(this.clock);
    cancelAnimationFrame(this.frame);
  }

  take(kind, value) {
    if (kind !== "step" && kind !== "event") return;
    this.received[kind]++;
    const second = Math.floor(performance.now() / 1000);
    this.counts.set(second, (this.counts.get(second) ?? 0) + 1);
    if (this.counts.size > SECONDS + 1) this.forget(second);
    this.waiting.push(row(kind, value));
    if (this.waiting.length > MOST) {
      this.waiting.shift();
      this.passed++;
    }
    if (!this.paused) this.soon();
  }

  // Steps from before, under what came live.
  before(steps) {
    const old = steps.map((step) => row("step", step)).filter((one) => !this.seen.has(one.key));
    for (const one of old) this.seen.add(one.key);
    this.rows = [...this.rows, ...old].slice(0, MOST);
    this.soon();
  }

  pause(paused) {
    this.paused = paused;
    this.soon();
  }

  clear() {
    this.rows = [];
    this.waiting = [];
    this.soon();
  }

  rate() {
    this.forget(Math.floor(performance.now() / 1000));
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0) / SECONDS;
  }

  forget(now) {
    for (const second of this.counts.keys()) if (second <= now - SECONDS) this.counts.delete(second);
  }

  say(state) {
    this.state = state;
    this.soon();
  }

  soon() {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      if (!this.paused && this.waiting.length) this.flush();
      this.onChange();
    });
  }

  flush() {
    const fresh = this.waiting.filter((one) => !this.seen.has(one.key)).reverse();
    this.waiting = [];
    this.passed = 0;
    this.rows = [...fresh, ...this.rows].slice(0, MOST);
    this.seen = new Set(this.rows.map((one) => one.key));
  }
}

function row(kind, value) {
  const id = kind === "step" ? value.step_id : value.event_id;
  return { key: `${kind} ${id}`, kind, id, value };
}
