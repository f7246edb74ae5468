// The token view: prompt and answer, what there is a loss on, and the ids, logprobs and advantages behind them.
import { html, useCallback, useEffect, useMemo, useRef, useState } from "../../lib/html.js";
import { Asked, Choice, Empty } from "../../lib/panel.js";
import { Copy } from "../../lib/text.js";
import { at, useApi } from "../../lib/api.js";
import { NONE, id, int, line, num, signed } from "../../lib/format.js";
import { COLOURS, keyOf } from "./tokens/colour.js";
import { packed, written } from "./tokens/packed.js";
import { Rows } from "./tokens/rows.js";

const PAUSE = 250; // until the address says where one is: browsers slow down pages that change it with every key

export function Tokens({ step, params, go, choose }) {
  const none = step.prompt_length === null;
  const asked = useApi(none ? null : at`/steps/${step.step_id}/tokens`, {}, { load: packed });
  const credit = useApi(none ? null : at`/steps/${step.step_id}/tokens`, { from: 0, to: 0, advantage: "grpo" });
  if (none) return html`<${Empty}>This step has no token ids: its client sent text only, and no tokenizer has derived them.<//>`;
  return html`<${Asked} of=${asked}>${(tokens) => html`<${View} tokens=${tokens} step=${step} credit=${credit.data} params=${params} go=${go} choose=${choose} />`}<//>`;
}

function View({ tokens, step, credit, params, go, choose }) {
  const advantage = credit?.advantage ?? null;
  const ids = tokens.text === null || params.show === "ids";
  const colour = COLOURS.some(([name]) => name === params.colour) ? params.colour : tokens.logprobs ? "logprob" : "mask";
  const start = numberOf(params.at, tokens.length);
  const [chosen, setChosen] = useState(start === null ? null : { cursor: start, anchor: start, from: start, to: numberOf(params.to, tokens.length + 1) ?? start + 1 });
  const [jump, setJump] = useState(start === null ? null : { at: start });
  const told = useRef(null);
  useEffect(() => told.current?.(null), [chosen]);
  const take = useCallback((cursor, more) => {
    setChosen((old) => {
      const anchor = more && old ? old.anchor : cursor;
      return { cursor, anchor, from: Math.min(anchor, cursor), to: Math.max(anchor, cursor) + 1 };
    });
    setJump({ at: cursor });
  }, []);
  useEffect(() => {
    if (!chosen) return undefined;
    const said = setTimeout(() => go({ at: chosen.from, to: chosen.to - chosen.from > 1 ? chosen.to : null }, { replace: true }), PAUSE);
    return () => clearTimeout(said);
  }, [chosen]);
  const point = useCallback((place) => told.current?.(place), []);
  return html`<div class="tokens">
    <${Figures} tokens=${tokens} credit=${credit} />
    <div class="token-tools">
      <${Choice} label="Colour" value=${colour} options=${COLOURS} onChange=${(to) => go({ colour: to }, { replace: true })} />
      ${tokens.text !== null && html`<${Choice} label="Show" value=${ids ? "ids" : "texts"} options=${[["texts", "texts"], ["ids", "ids"]]} onChange=${(to) => go({ show: to === "ids" ? "ids" : null }, { replace: true })} />`}
      <button type="button" class="small" onClick=${() => setJump({ at: 0 })}>Prompt</button>
      <button type="button" class="small" onClick=${() => setJump({ answer: true })}>Answer</button>
      ${step.drift_at !== null && html`<button type="button" class="small" onClick=${() => take(Math.min(step.drift_at, tokens.length - 1))}>Drift at ${int(step.drift_at)}</button>`}
      <${GoTo} most=${tokens.length} take=${take} />
      <${Copies} tokens=${tokens} chosen=${chosen} />
    </div>
    <${Key} colour=${colour} advantage=${credit} tokens=${tokens} />
    <${Pointed} told=${told} tokens=${tokens} chosen=${chosen} advantage=${advantage} choose=${choose} />
    <${Rows} tokens=${tokens} ids=${ids} colour=${colour} advantage=${advantage} drift=${step.drift_at} chosen=${chosen} jump=${jump} onPoint=${point} onChoose=${take} />
  </div>`;
}

const numberOf = (text, below) => (/^\d+$/.test(text ?? "") && Number(text) < below ? Number(text) : null);

function Figures({ tokens, credit }) {
  const trained = tokens.mask.reduce((sum, [from, to]) => sum + to - from, 0);
  const earlier = tokens.sampled.reduce((sum, { from, to }) => sum + to - from, 0);
  const mean = useMemo(() => (tokens.logprobs?.length ? tokens.logprobs.reduce((sum, one) => sum + one, 0) / tokens.logprobs.length : null), [tokens]);
  const facts = [
    ["Prompt", int(tokens.prompt_length), earlier ? `${int(earlier)} sampled earlier` : ""],
    ["Answer", int(tokens.response_length), ""],
    ["With a loss", int(trained), tokens.trainable ? "" : line(tokens.untrainable_reason ?? "not trainable", 60)],
    ["Mean logprob", signed(mean), line(tokens.logprobs_mode ?? "", 30)],
    ["Advantage", credit ? signed(credit.advantage) : "…", credit ? (credit.advantage === null ? line(credit.advantage_reason ?? "", 80) : "GRPO, as of now") : ""],
    ["Ids", line(tokens.source ?? "engine", 40), line(tokens.fingerprint ?? "", 40)],
  ];
  return html`<dl class="strip" aria-label="Tokens of the step">${facts.map(([label, value, more]) => html`<div key=${label}><dt>${label}</dt>
    <dd data-figure=${`tokens ${label.toLowerCase()}`}>${value} ${more && html`<span class="dim">${more}</span>`}</dd></div>`)}</dl>`;
}

function GoTo({ most, take }) {
  const input = useRef(null);
  const submit = (event) => {
    event.preventDefault();
    const to = numberOf(input.current.value, most);
    if (to !== null) take(to);
  };
  return html`<form onSubmit=${submit}><label>Position <input ref=${input} type="number" min="0" max=${most - 1} step="1" required /></label></form>`;
}

function Copies({ tokens, chosen }) {
  const some = chosen !== null && chosen.to - chosen.from > 1;
  const [from, to] = some ? [chosen.from, chosen.to] : [0, tokens.length];
  const what = some ? `${int(to - from)} taken` : "all";
  return html`<${Copy} label=${`Copy ${what} ids`} text=${() => JSON.stringify([...tokens.ids.subarray(from, to)])} />
    ${tokens.text !== null && html`<${Copy} label=${`Copy ${what} text`} text=${() => tokens.textBetween(from, to)} />`}`;
}

function Key({ colour, tokens, advantage: credit }) {
  const loss = tokens.mask.length > 0;
  return html`<p class="token-key">${loss && html`<span class="token loss">a</span> <span>there is a loss on it</span>`}
    ${tokens.sampled.length > 0 && html`<span class="token of-prompt earlier">a</span> <span>an earlier answer</span>`}
    ${keyOf(colour).filter(() => colour !== "advantage" || credit?.advantage).map(([name, words]) => html`<span key=${name} class=${`token ${name}`}>a</span> <span key=${`${name} words`}>${words}</span>`)}
    ${colour === "advantage" && credit?.advantage === null && html`<span>No advantage: ${line(credit.advantage_reason ?? "", 160)}</span>`}
    ${tokens.text === null && html`<span class="dim">No tokenizer for these ids is on this machine, so they are shown as numbers.</span>`}</p>`;
}

// The token under the pointer, or the chosen one: it alone is drawn anew when the pointer moves.
function Pointed({ told, tokens, chosen, advantage, choose }) {
  const [pointed, setPointed] = useState(null);
  useEffect(() => ((told.current = setPointed), () => (told.current = null)), []);
  const place = pointed ?? chosen?.cursor ?? null;
  if (place === null) return html`<p class="pointed dim" role="status">Point at a token, or go to one with the arrows: its id and logprob are shown here. Shift takes several.</p>`;
  const logprob = tokens.logprobOf(place);
  const text = tokens.textOf(place);
  const earlier = tokens.samplerOf(place);
  return html`<p class="pointed mono" role="status"><b>${int(place)}</b> <span class="dim">${place < tokens.prompt ? "prompt" : `answer ${int(place - tokens.prompt)}`}</span>
    ${" "}id <b>${tokens.ids[place]}</b>${text !== null && html` text <b>${written(text)}</b>`}
    ${" "}logprob <b>${Number.isNaN(logprob) ? NONE : signed(logprob, 4)}</b>${!Number.isNaN(logprob) && html` <span class="dim">p ${num(Math.exp(logprob))}</span>`}
    ${" "}${tokens.trained(place) ? html`loss <b>yes</b>${advantage !== null && html` advantage <b>${signed(advantage, 4)}</b>`}` : html`loss <b>no</b>`}
    ${earlier !== null && html` answer of ${choose ? html`<button type="button" class="bare small" onClick=${() => choose(earlier)}>${id(earlier)}</button>` : id(earlier)}`}</p>`;
}
