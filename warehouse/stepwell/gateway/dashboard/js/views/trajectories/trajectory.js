// One trajectory: what it is and was worth, the tree of its steps, the step that is looked at, what was said about them.
import { cls, html, useEffect, useMemo } from "../../lib/html.js";
import { Asked, Badge, Panel } from "../../lib/panel.js";
import { Copy } from "../../lib/text.js";
import { at, repeat, useApi } from "../../lib/api.js";
import { href, visit } from "../../lib/url.js";
import { useKeys } from "../../lib/keys.js";
import { NONE, date, duration, id, inert, int, line, many, signed, time } from "../../lib/format.js";
import { State } from "./columns.js";
import { Events } from "./events.js";
import { lastList } from "./list.js";
import { laid } from "./lanes.js";
import { Step } from "./step.js";
import { Tree } from "./tree.js";

const EVERY = 5000; // while it is open, more of it comes
const GONE = { step: null, tab: null, with: null, at: null, to: null, colour: null, show: null };

export function Trajectory({ name, params, go }) {
  const asked = useApi(at`/trajectories/${name}`);
  const open = asked.data?.state === "open";
  useEffect(() => (open ? repeat(asked.poll, EVERY) : undefined), [open, asked.poll]);
  const chosen = params.step;
  const step = useApi(chosen ? at`/steps/${chosen}` : null);
  const choose = (to) => go({ ...GONE, step: to, tab: params.tab, colour: params.colour }, { replace: Boolean(chosen) });
  const close = () => go(GONE);
  useKeys({ u: ["up: to the trajectory, or to the list", () => (chosen ? close() : visit(lastList()))] });
  return html`<div class="head"><h1>Trajectory <span class="mono">${id(name, 60)}</span></h1>
      ${asked.data && html`<${State} state=${asked.data.state} />`}
      <div class="tools"><${Copy} text=${name} label="Copy id" /><a href=${lastList()}>All trajectories</a></div></div>
    <${Asked} of=${asked}>${(trajectory) => html`<${Facts} trajectory=${trajectory} />
      <div class=${cls("trajectory", chosen && "with-step")}>
        <div class="side"><${Steps} trajectory=${trajectory} chosen=${chosen} choose=${choose} />
          <${Events} events=${trajectory.events} choose=${choose} /></div>
        ${chosen && html`<${Step} key=${chosen} asked=${step} name=${chosen} params=${params} go=${go} close=${close} trajectory=${trajectory} choose=${choose} />`}
      </div>`}<//>`;
}

function Steps({ trajectory, chosen, choose }) {
  const drawn = useMemo(() => laid(trajectory.tree, trajectory.conversations), [trajectory]);
  const order = useMemo(() => drawn.rows.flatMap(({ node }) => (node ? [node.step_id] : [])), [drawn]);
  const move = (by) => {
    const place = order.indexOf(chosen);
    const to = order[place < 0 ? 0 : Math.max(0, Math.min(order.length - 1, place + by))];
    if (to !== undefined) choose(to);
  };
  useKeys({ "]": ["the step below", () => move(1)], "[": ["the step above", () => move(-1)] });
  const { length } = drawn.conversations;
  const hint = `${many(trajectory.tree.length, "step")}${length > 1 ? ` in ${int(length)} conversations` : ""}`;
  return html`<${Panel} title="Steps" hint=${hint}>
    ${!trajectory.tree_is_whole && html`<p><${Badge} tone="warn">not all of them<//> The tree shows the first ${int(trajectory.tree.length)} steps;
      ${" "}<a href=${href("trajectories", [], { of: "steps", trajectory_id: trajectory.trajectory_id, sort: "turn" })}>the list has all ${int(trajectory.steps)}</a>.</p>`}
    <${Tree} trajectory=${trajectory} drawn=${drawn} chosen=${chosen} open=${choose} narrow=${Boolean(chosen)} />
  <//>`;
}

function Facts({ trajectory: one }) {
  const began = first(one.tree.map((step) => step.started_at), (a, b) => a < b) ?? one.opened_at;
  const ended = first(one.tree.map((step) => step.finished_at), (a, b) => a > b);
  const names = Object.entries(one.trajectory_rewards ?? {});
  const scores = Object.entries(one.trajectory_scores ?? {});
  const facts = [
    ["Reward", html`<b>${signed(one.trajectory_reward)}</b>${names.length > 0 && html` <span class="dim">${names.map(([name, value]) => `${line(name, 40)} ${signed(value)}`).join(", ")}</span>`}`],
    scores.length > 0 && ["Scores", scores.map(([name, value]) => `${line(name, 40)} ${signed(value)}`).join(", ")],
    ["Steps", html`${int(one.steps)} <span class="dim">${int(one.trainable_steps)} trainable, ${many(one.turns, "turn")}</span>`],
    ["Sampled", html`${int(one.response_tokens)} <span class="dim">tokens</span>`],
    ["Group", one.group_id === null ? NONE : html`<a class="mono" href=${href("trajectories", [], { group_id: one.group_id })}>${id(one.group_id, 40)}</a>`],
    ["Prompt", one.prompt_id === null ? NONE : html`<a class="mono" href=${href("trajectories", [], { prompt_id: one.prompt_id })}>${id(one.prompt_id, 40)}</a>`],
    ["Version", one.policy_version_min === null ? NONE : one.policy_version_min === one.policy_version_max ? one.policy_version_min : `${one.policy_version_min}–${one.policy_version_max}`],
    ["Began", html`${time(began)} <span class="dim">${began && ended ? `for ${duration((date(ended) - date(began)) / 1000)}` : ""}</span>`],
    one.reason !== null && ["Reason", inert(one.reason)],
    one.labels.length > 0 && ["Labels", one.labels.map((label) => html`<${Badge} key=${label}>${line(label, 40)}<//> `)],
  ].filter(Boolean);
  return html`<dl class="strip" aria-label="The trajectory">${facts.map(([label, value]) => html`<div key=${label}><dt>${label}</dt><dd data-figure=${label.toLowerCase()}>${value}</dd></div>`)}</dl>`;
}

// Of times, the one that lies before (or behind) all others.
function first(times, before) {
  return times.filter(Boolean).reduce((found, one) => (found === null || before(Number(date(one)), Number(date(found))) ? one : found), null);
}
