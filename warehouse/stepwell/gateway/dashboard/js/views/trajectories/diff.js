// How the prompts of two steps differ: message by message, and from which token on.
import { html, useRef } from "../../lib/html.js";
import { Asked, Badge, Empty } from "../../lib/panel.js";
import { Text } from "../../lib/text.js";
import { at, useApi } from "../../lib/api.js";
import { href } from "../../lib/url.js";
import { id, int, line, many } from "../../lib/format.js";
import { Message } from "./messages.js";

export function Diff({ step, params, go, trajectory }) {
  const other = params.with;
  const asked = useApi(other ? at`/steps/${step.step_id}/diff` : null, { with: other });
  const choose = (to) => go({ with: to }, { replace: true });
  return html`<${Choose} step=${step} trajectory=${trajectory} other=${other} choose=${choose} />
    ${!other && html`<${Empty}>Choose a step to compare this one's prompt with.<//>`}
    ${other && html`<${Asked} of=${asked.stale ? { ...asked, data: null } : asked}>${(found) => html`<${Found} found=${found} step=${step} />`}<//>`}`;
}

function Choose({ step, trajectory, other, choose }) {
  const input = useRef(null);
  const near = [
    ...(step.parent_id ? [[step.parent_id, "parent"]] : []),
    ...step.lineage.attempts.map((one) => [one, "same call"]),
    ...siblings(step, trajectory).map((one) => [one, "branch"]),
    ...step.lineage.children.map((one) => [one, "next"]),
  ];
  const submit = (event) => (event.preventDefault(), input.current.value.trim() && choose(input.current.value.trim()));
  return html`<form class="compare" onSubmit=${submit}>
    ${near.slice(0, 6).map(([one, what]) => html`<button key=${`${what} ${one}`} type="button" class="small" aria-pressed=${String(one === other)} onClick=${() => choose(one)}>${what} <span class="mono">${id(one, 22)}</span></button>`)}
    <label>Step <input ref=${input} type="text" value=${other ?? ""} placeholder="id of a step" maxlength="256" /></label><button type="submit" class="small">Compare</button>
  </form>`;
}

const siblings = (step, trajectory) => (trajectory?.tree.find((one) => one.step_id === step.parent_id)?.children ?? []).filter((one) => one !== step.step_id && !step.lineage.attempts.includes(one));

function Found({ found: { a, b, messages, tokens } }) {
  return html`<p data-figure="diff messages">${same(messages)}</p>
    ${tokens && html`<${Ids} a=${a} b=${b} tokens=${tokens} />`}
    ${messages.changes.map((change) => html`<section key=${`${change.a} ${change.b}`} class="change" aria-label=${`Messages ${range(change.a)} and ${range(change.b)}`}>
      <${Pieces} title="this step" tone="a" from=${change.a[0]} messages=${change.a_messages} />
      <${Pieces} title="the other" tone="b" from=${change.b[0]} messages=${change.b_messages} />
    </section>`)}`;
}

function same({ a, b, common_prefix: same_first, changes }) {
  if (!changes.length) return `The prompts have the same ${many(a, "message")}.`;
  return `${many(same_first, "message")} from the beginning ${same_first === 1 ? "is" : "are"} the same, of ${int(a)} here and ${int(b)} there; the prompts differ in ${many(changes.length, "place")}.`;
}

const range = ([from, to]) => (to - from === 1 ? String(from + 1) : `${from + 1}–${to}`);

function Pieces({ title, tone, from, messages }) {
  if (!messages.length) return html`<div class=${`piece ${tone}`}><p class="dim">${title}: nothing here</p></div>`;
  return html`<div class=${`piece ${tone}`}><p class="dim">${title}</p>
    ${messages.map((message, index) => (message?.cut
      ? html`<p key=${index}>A message of ${int(message.bytes)} bytes; its beginning:</p><${Text} text=${message.text} />`
      : html`<${Message} key=${index} message=${message} number=${from + index} />`))}</div>`;
}

function Ids({ a, b, tokens }) {
  const { common_prefix: prefix, same_tokenizer: alike } = tokens;
  const parts = prefix < Math.max(tokens.a, tokens.b);
  return html`<div class="ids-diff"><p data-figure="diff tokens">${int(prefix)} of ${int(tokens.a)} and ${int(tokens.b)} prompt ids are the same from the beginning, ${int(tokens.common_suffix)} from the end.
      ${" "}${!alike && html`<${Badge} tone="warn">different tokenizers<//>`}
      ${tokens.continues >= tokens.a && tokens.b > tokens.a ? ` The other's prompt goes on with this step's prompt and answer for ${int(tokens.continues)} ids.` : ""}</p>
    ${parts && html`<${Around} title="here" step=${a} side=${tokens.a_ids} tone="a" /><${Around} title="there" step=${b} side=${tokens.b_ids} tone="b" />`}</div>`;
}

function Around({ title, step, side: { from, ids, differ }, tone }) {
  const to = href("trajectories", step.trajectory_id === null ? [] : [step.trajectory_id], { step: step.step_id, tab: "tokens", at: differ[0] });
  return html`<p class=${`ids ${tone}`}><a href=${to} title=${line(step.step_id, 200)}>${title}, from ${int(from)}</a> ${ids.map((one, index) => {
    const place = from + index;
    const text = `${one} `;
    return place >= differ[0] && place < differ[1] ? html`<mark key=${place}>${text}</mark>` : html`<span key=${place}>${text}</span>`;
  })}</p>`;
}
