// What a queue asks: a rating, one of some labels, or yes and no. It is part of the address, so a queue can be handed out as a link.
import { html, useRef } from "../../lib/html.js";
import { Choice } from "../../lib/panel.js";
import { inert, line } from "../../lib/format.js";

const MOST = 9; // answers, one for each key
const WAYS = [["rating", "rate 1 to 5"], ["label", "one of some labels"], ["thumbs", "good or bad"]];

export function questionOf({ ask, name, options }) {
  const way = WAYS.some(([one]) => one === ask) ? ask : "rating";
  const words = [...new Set((options ?? "good,bad,unsure").split(",").map((one) => one.trim()).filter(Boolean))].slice(0, MOST);
  const named = { rating: "quality", label: "verdict", thumbs: "thumbs" }[way];
  return { way, kind: way === "label" ? "label" : "rating", name: name || named, options: words };
}

// The answers in order of their keys: what the button says, what is submitted, and that in words.
export function answersOf({ way, name, options }) {
  if (way === "label") return options.map((label) => ({ short: inert(label), words: `Label ${line(label, 60)}`, said: { name, label } }));
  if (way === "thumbs") return [["good", 1], ["bad", 0]].map(([short, rating]) => ({ short, words: `Thumbs: ${short}`, said: { name, rating, scale: 1 } }));
  return [1, 2, 3, 4, 5].map((rating) => ({ short: `${rating}`, words: `${rating} of 5`, said: { name, rating, scale: 5 } }));
}

export function Question({ question, shared, go }) {
  const form = useRef(null);
  const set = (event) => {
    event.preventDefault();
    const { name, options } = Object.fromEntries(new FormData(form.current));
    go({ name: name.trim(), ...(options === undefined ? {} : { options: options.trim() }) });
  };
  return html`<form class="question" ref=${form} onSubmit=${set} key=${`${question.way} ${question.name} ${question.options}`}>
    <${Choice} label="What is asked" value=${question.way} options=${WAYS} onChange=${(ask) => go({ ask, name: null, options: null })} />
    <label>name <input name="name" defaultValue=${question.name} maxlength="256" size="12" onChange=${set} /></label>
    ${question.way === "label" && html`<label>labels <input name="options" defaultValue=${question.options.join(", ")} maxlength="1000" size="28" onChange=${set} /></label>`}
    <label title="Nobody gets what anybody has judged, nor what another one was given in the last ten minutes"><input type="checkbox" checked=${shared} onChange=${(event) => go({ shared: event.target.checked ? "true" : null })} /> share the work</label>
    <span class="dim">The address of this page is the queue: hand it to whoever is to judge.</span>
  </form>`;
}
