// Two answers to the same prompt, side by side: which one is better? Each answer is a preference.
import { html, useState } from "../../lib/html.js";
import { Empty, Panel, Problem } from "../../lib/panel.js";
import { Filters } from "../../lib/filters.js";
import { FIELDS, filterOf } from "../../lib/steps.js";
import { at, useApi } from "../../lib/api.js";
import { href } from "../../lib/url.js";
import { id, int, line, signed } from "../../lib/format.js";
import { once, useKeys } from "../../lib/keys.js";
import { Conversation, Message } from "./message.js";
import { say, undoLast } from "./judge.js";
import { useAuthor } from "./author.js";
import { progress, useWaiting } from "./waiting.js";

export function Pairs({ params, go }) {
  const author = useAuthor();
  const name = params.name || "preferred";
  const list = useWaiting("/annotations/pairs", { ...filterOf(params), author, name }, keyOf);
  const pair = list.now;
  const sides = pair && [pair.a, pair.b];
  const left = useApi(sides ? at`/steps/${sides[0].step_id}` : null);
  const right = useApi(sides ? at`/steps/${sides[1].step_id}` : null);
  const there = sides && left.data?.step_id === sides[0].step_id && right.data?.step_id === sides[1].step_id;
  const [busy, setBusy] = useState(false);
  const prefer = async (side) => {
    if (!there || busy) return;
    setBusy(true);
    const [better, worse] = [sides[side].step_id, sides[1 - side].step_id];
    const done = await say(better, { rejected_id: worse, name }, `${side ? "Right" : "Left"} is better`);
    setBusy(false);
    if (done) list.answered({ ...done, item: pair });
  };
  const last = list.done.at(-1);
  const undo = () => undoLast(list, busy, setBusy, (text) => text.toLowerCase());
  useKeys({
    ArrowLeft: ["the left one is better", once(() => prefer(0))],
    ArrowRight: ["the right one is better", once(() => prefer(1))],
    s: ["skip this pair", once(list.skip)],
    u: ["undo the last answer", once(undo)],
  });
  const error = list.error ?? left.error ?? right.error;
  return html`<${Filters} fields=${FIELDS} params=${params} go=${go} search="Search in what was said">
      <span class="dim" role="status" data-figure="left">${progress(list, (many) => (many === 1 ? "pair" : "pairs"))}</span>
    <//>
    ${error && html`<${Problem} error=${error} retry=${list.reload} />`}
    ${!list.error && !pair && (list.loading ? html`<p class="wait" role="status">Asking the gateway…</p>` : html`<${Empty}><p>${list.done.length ? `Done: ${int(list.done.length)} compared now.` : `No two answers to one prompt are left for ${line(author, 60)} to compare.`}</p>
      ${list.skipped.length > 0 && html`<button type="button" onClick=${list.reload}>Come back to the ${int(list.skipped.length)} skipped</button>`}<//>`)}
    ${pair && !there && !error && html`<p class="wait" role="status">Asking the gateway…</p>`}
    ${there && html`<${Panel} title="The prompt" hint=${html`group <a class="mono" href=${href("curate", ["pairs"], { group_id: pair.group_id })}>${id(pair.group_id, 40)}</a>`}><${Conversation} messages=${left.data.messages} /><//>
      <div class="pair">${[left.data, right.data].map((step, side) => html`<${Panel} key=${side} title=${side ? "Right" : "Left"} class="answer-card"
          tools=${html`<button type="button" class="primary" disabled=${busy} onClick=${() => prefer(side)}><kbd>${side ? "→" : "←"}</kbd> This one is better</button>`}>
        <${Message} message=${step.response ?? { role: "assistant", content: [] }} />
        <details><summary>whose it is</summary><p class="dim">${line(step.model ?? "", 60)} <a class="mono" href=${href("curate", ["step", step.step_id])}>${id(step.step_id, 36)}</a> reward ${signed(step.step_reward ?? step.trajectory_reward)}</p></details>
      <//>`)}</div>
      <div class="row"><button type="button" onClick=${list.skip}><kbd>s</kbd> Skip</button><button type="button" disabled=${!last || busy} onClick=${undo}><kbd>u</kbd> Undo the last</button>
        ${last && html`<span class="dim" data-figure="last">last: ${last.text.toLowerCase()}</span>`}<span class="dim">Which side an answer stands on is drawn by lot.</span></div>`}`;
}

const keyOf = ({ a, b }) => [a.step_id, b.step_id].sort().join("\n");
