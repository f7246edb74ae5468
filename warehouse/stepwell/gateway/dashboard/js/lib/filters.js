// Filters as chips, bound to the address: <${Filters} fields=${FIELDS} params=${params} go=${go} />.
// A field: {name, label, kind: "text" | "number" | "choice" | "flag" | "time", options: [[value, label]], hint}. Field `q` is the search box.
import { html, useEffect, useRef, useState } from "./html.js";
import { inert } from "./format.js";
import { useKeys } from "./keys.js";

const PAUSE = 250;

export function Filters({ fields, params, go, search, children }) {
  const [adding, setAdding] = useState(null);
  const adder = useRef(null);
  const returns = useRef(false); // the focus, to where filters are added
  useEffect(() => {
    if (returns.current) adder.current?.focus();
    returns.current = false;
  });
  const field = fields.find((one) => one.name === adding);
  const chips = fields.filter((one) => params[one.name] !== undefined && params[one.name] !== "");
  const end = () => ((returns.current = true), setAdding(null));
  const set = (name, value) => (end(), go({ [name]: value, cursor: null }));
  return html`<div class="filters" role="group" aria-label="Filters">
    ${search && html`<${Search} value=${params.q ?? ""} label=${search} onChange=${(q) => go({ q, cursor: null }, { replace: true })} />`}
    ${chips.map((one) => html`<span key=${one.name} class="chip">
      <button type="button" class="bare" onClick=${() => setAdding(one.name)} title="Change">${one.label}: <b>${said(one, params[one.name])}</b></button>
      <button type="button" class="bare" onClick=${() => set(one.name, null)} aria-label=${`Remove ${one.label}`}>×</button>
    </span>`)}
    ${field
      ? html`<${Entry} key=${field.name} field=${field} value=${params[field.name] ?? ""} set=${(value) => set(field.name, value)} cancel=${end} leave=${() => setAdding(null)} />`
      : html`<select ref=${adder} aria-label="Add a filter" value="" onChange=${(event) => setAdding(event.target.value || null)}>
          <option value="">+ filter</option>
          ${fields.filter((one) => !chips.includes(one)).map((one) => html`<option key=${one.name} value=${one.name}>${one.label}</option>`)}
        </select>`}
    ${chips.length > 1 && html`<button type="button" class="small bare" onClick=${() => go({ ...Object.fromEntries(chips.map((one) => [one.name, null])), cursor: null })}>clear</button>`}
    ${children}
  </div>`;
}

function said(field, value) {
  if (field.kind === "flag") return value === "true" ? "yes" : "no";
  return inert(field.options?.find(([key]) => key === value)?.[1] ?? value);
}

function Entry({ field, value, set, cancel, leave }) {
  const input = useRef(null);
  useEffect(() => input.current.focus(), []);
  const options = field.kind === "flag" ? [["true", "yes"], ["false", "no"]] : field.options;
  const keys = (event) => event.key === "Escape" && cancel();
  if (options) {
    return html`<label class="chip entry">${field.label} <select ref=${input} value=${value} onKeyDown=${keys} onChange=${(event) => set(event.target.value)} onBlur=${leave}>
      <option value="">choose…</option>${options.map(([key, words]) => html`<option key=${key} value=${key}>${words}</option>`)}
    </select></label>`;
  }
  const submit = (event) => (event.preventDefault(), set(input.current.value.trim()));
  const type = { number: "number", time: "datetime-local" }[field.kind] ?? "text";
  return html`<form class="chip entry" onSubmit=${submit} onKeyDown=${keys}>
    <label>${field.label} <input ref=${input} type=${type} step="any" value=${value} placeholder=${field.hint} /></label>
    <button type="submit" class="small">Set</button><button type="button" class="small bare" aria-label="Cancel" onClick=${cancel}>×</button>
  </form>`;
}

// A search box that says what is in it when nothing is typed for a moment; `/` goes to it.
export function Search({ value, label, onChange }) {
  const input = useRef(null);
  const timer = useRef(0);
  useKeys({ "/": ["search", () => input.current.focus()] });
  useEffect(() => {
    if (document.activeElement !== input.current) input.current.value = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const typed = (event) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(onChange, PAUSE, event.target.value);
  };
  return html`<input ref=${input} class="search" type="search" aria-label=${label} placeholder=${label} onInput=${typed} maxlength="1000" />`;
}
