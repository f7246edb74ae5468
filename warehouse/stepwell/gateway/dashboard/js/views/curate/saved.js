// Filters with a name, shared by all who use this warehouse.
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { Problem } from "../../lib/panel.js";
import { at, del, put, useApi } from "../../lib/api.js";
import { complain, toast } from "../../lib/toast.js";
import { confirm } from "../../lib/dialog.js";
import { filterWords } from "../../lib/steps.js";
import { href, query } from "../../lib/url.js";
import { line } from "../../lib/format.js";

export function SavedViews({ view, params }) {
  const asked = useApi("/views");
  const [naming, setNaming] = useState(false);
  const mine = asked.data?.items.filter((one) => one.view?.route === view).map((one) => ({ name: one.name, params: one.view.params ?? {} })) ?? [];
  const now = query(sorted(params));
  const save = async (event) => {
    event.preventDefault();
    const name = new FormData(event.target).get("name").trim();
    const there = mine.find((one) => one.name === name);
    if (there && !(await confirm({ title: `Replace the view “${line(name, 60)}”?`, text: `Now it means: ${filterWords(there.params)}.`, yes: "Replace" }))) return;
    await act(() => put(at`/views/${name}`, { view: { route: view, params: said(params) } }), `Saved as “${line(name, 60)}”`);
    setNaming(false);
  };
  const act = async (work, words) => {
    try {
      await work();
      toast(words);
      asked.reload();
    } catch (error) {
      complain(error);
    }
  };
  const remove = async (one) => {
    if (await confirm({ title: `Delete the view “${line(one.name, 60)}”?`, text: "Only the name goes; the steps stay.", yes: "Delete", danger: true }))
      await act(() => del(at`/views/${one.name}`), "Deleted the view");
  };
  return html`<div class="saved" role="group" aria-label="Saved views">
    <span class="dim">Views:</span>
    <a class=${now === "" ? "view-link here" : "view-link"} aria-current=${now === "" ? "true" : undefined} href=${href(view)}>all steps</a>
    ${mine.map((one) => {
      const here = query(sorted(one.params)) === now;
      return html`<span key=${one.name} class=${here ? "view-link here" : "view-link"}><a href=${href(view, [], one.params)} aria-current=${here ? "true" : undefined} title=${filterWords(one.params)}>${line(one.name, 60)}</a>
        ${here && html`<button type="button" class="bare small" aria-label=${`Delete the view ${one.name}`} onClick=${() => remove(one)}>×</button>`}</span>`;
    })}
    ${naming
      ? html`<${Naming} save=${save} cancel=${() => setNaming(false)} />`
      : html`<button type="button" class="small" disabled=${!now || !asked.data} onClick=${() => setNaming(true)}>Save this view</button>`}
    ${asked.error && html`<${Problem} error=${asked.error} />`}
  </div>`;
}

function Naming({ save, cancel }) {
  const input = useRef(null);
  useEffect(() => input.current.focus(), []);
  return html`<form onSubmit=${save} onKeyDown=${(event) => event.key === "Escape" && cancel()}>
    <input ref=${input} name="name" required maxlength="100" aria-label="Name of the view" placeholder="name" pattern="[^\\/]+" title="any name without a slash" /> <button type="submit" class="small">Save</button>
  </form>`;
}

const said = (params) => Object.fromEntries(Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== ""));
const sorted = (params) => Object.fromEntries(Object.entries(said(params)).sort());
