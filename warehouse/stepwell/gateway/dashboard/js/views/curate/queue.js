// The queue: one step after another that this author has not judged yet, of the filter of the address; a key for each answer.
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { Empty, Panel, Problem } from "../../lib/panel.js";
import { Filters } from "../../lib/filters.js";
import { FIELDS, filterOf } from "../../lib/steps.js";
import { at, get } from "../../lib/api.js";
import { href } from "../../lib/url.js";
import { int, line } from "../../lib/format.js";
import { once, useKeys } from "../../lib/keys.js";
import { Judged } from "./judged.js";
import { Question, answersOf, questionOf } from "./question.js";
import { say, settled, undoLast } from "./judge.js";
import { useAuthor } from "./author.js";
import { progress, useWaiting } from "./waiting.js";

export function Queue({ params, go }) {
  const author = useAuthor();
  const question = questionOf(params);
  const filter = filterOf(params);
  const list = useWaiting("/annotations/queue", { ...filter, author, name: question.name, shared: params.shared }, (item) => item.step_id);
  const step = useSteps(list.now, list.items[1]);
  const [busy, setBusy] = useState(false);
  const last = list.done.at(-1);
  const undo = () => undoLast(list, busy, setBusy);
  const close = () => params.edit && go({ edit: null }, { replace: true });
  const skip = () => (close(), list.skip());
  const answer = async (value) => {
    if (!step.data || busy) return;
    setBusy(true);
    close();
    const { said, words } = answersOf(question)[value];
    const done = await say(list.now.step_id, said, words);
    setBusy(false);
    if (done) list.answered({ ...done, item: list.now });
  };
  const keys = { s: ["skip this step", once(skip)], u: ["undo the last answer", once(undo)] };
  answersOf(question).forEach(({ words }, value) => (keys[`${value + 1}`] = [words, once(() => answer(value))]));
  useKeys(keys);
  return html`<${Filters} fields=${FIELDS} params=${params} go=${go} search="Search in what was said" />
    <${Question} question=${question} shared=${params.shared === "true"} go=${go} />
    ${list.error && html`<${Problem} error=${list.error} retry=${list.reload} />`}
    ${!list.error && !list.now && (list.loading ? html`<p class="wait" role="status">Asking the gateway…</p>` : html`<${Finished} list=${list} author=${author} filter=${filter} />`)}
    ${list.now && step.error && html`<${Problem} error=${step.error} retry=${step.reload} />`}
    ${list.now && !step.data && !step.error && html`<p class="wait" role="status">Asking the gateway…</p>`}
    ${list.now && step.data && html`<${Judged} key=${step.data.step_id} step=${step.data} keys=${false} editing=${params.edit === "1"} setEditing=${(on) => go({ edit: on ? "1" : null }, { replace: true })}
      onSaid=${async () => (await settled(), step.reload())}>
      <${Panel} title=${`How is it: ${line(question.name, 60)}?`} class="asked" tools=${html`<span class="dim" role="status" data-figure="left">${progress(list, (many) => (many === 1 ? "step" : "steps"))}</span>`}>
        <div class="answers">${answersOf(question).map(({ short, words }, value) => html`<button key=${short} type="button" disabled=${busy} title=${words} onClick=${() => answer(value)}>${short !== `${value + 1}` && html`<kbd>${value + 1}</kbd>`} ${short}</button>`)}</div>
        <div class="row"><button type="button" onClick=${skip}><kbd>s</kbd> Skip</button>
          <button type="button" disabled=${!last || busy} onClick=${undo}><kbd>u</kbd> Undo the last</button>
          ${last && html`<span class="dim" data-figure="last">last: ${last.text.toLowerCase()}</span>`}</div>
      <//>
    <//>`}`;
}

function Finished({ list, author, filter }) {
  const skipped = list.skipped.length;
  return html`<${Empty}><p>${list.done.length ? `Done: ${int(list.done.length)} judged now.` : `${line(author, 60)} has judged every step like this.`}</p>
    ${skipped > 0 && html`<button type="button" onClick=${list.reload}>Come back to the ${int(skipped)} skipped</button> `}<a href=${href("curate", [], filter)}>Back to the list</a><//>`;
}

// The whole of a step, and that of the next one ahead of time, so that an answer leads to the next question at once.
function useSteps(now, next) {
  const known = useRef(new Map());
  const [state, setState] = useState({ id: null, data: null, error: null });
  const ask = (id) => {
    if (!known.current.has(id)) known.current.set(id, get(at`/steps/${id}`).catch((error) => (known.current.delete(id), Promise.reject(error))));
    return known.current.get(id);
  };
  const load = async (id) => {
    try {
      const data = await ask(id);
      setState((old) => (old.id === id ? { id, data, error: null } : old));
    } catch (error) {
      setState((old) => (old.id === id ? { id, data: null, error } : old));
    }
  };
  useEffect(() => {
    if (!now) return;
    for (const id of known.current.keys()) if (id !== now.step_id) known.current.delete(id); // a day's work would be kept, else
    setState({ id: now.step_id, data: null, error: null });
    load(now.step_id);
    if (next) ask(next.step_id).catch(() => {});
  }, [now?.step_id, next?.step_id]);
  const there = state.id === now?.step_id ? state : { data: null, error: null };
  return { ...there, reload: () => (known.current.delete(now.step_id), load(now.step_id)) };
}
