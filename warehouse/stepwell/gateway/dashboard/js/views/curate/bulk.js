// One judgement for all that is chosen.
import { html, useRef, useState } from "../../lib/html.js";
import { confirm } from "../../lib/dialog.js";
import { int } from "../../lib/format.js";
import { useKeys } from "../../lib/keys.js";
import { MOST, sayOfMany, steps } from "./judge.js";
import { KINDS } from "./kinds.js";

const ASKED = 100; // steps above which the reader is asked once more

export function Bulk({ chosen, count, body, rows, again }) {
  const [kind, setKind] = useState("label");
  const [busy, setBusy] = useState(false);
  const form = useRef(null);
  useKeys({ b: ["judge what is chosen", () => form.current?.querySelector("select").focus()] });
  const many = chosen.all ? count?.count ?? 0 : chosen.size;
  if (!many) return html`<p class="dim bulk-hint">Choose steps to judge them at once: tick them, or go with <kbd>j</kbd> <kbd>k</kbd> and choose with <kbd>x</kbd>.</p>`;
  const submit = async (event) => {
    event.preventDefault();
    const said = KINDS[kind].said(Object.fromEntries(new FormData(form.current)));
    const words = KINDS[kind].words(said);
    if ((chosen.all || many > ASKED) && !(await confirm({ title: `${words}: ${steps(many)}?`, text: "It can be undone as a whole; what was said before stays in the history.", yes: `Judge ${steps(many)}` }))) return;
    setBusy(true);
    const which = chosen.all ? { filter: Object.keys(body).length ? body : { where: "true" }, expect: many } : { ids: [...chosen.ids] };
    const good = await sayOfMany(which, said, words, again);
    setBusy(false);
    if (good) chosen.clear();
  };
  const more = !chosen.all && count?.exact && count.count > many && rows.every((row) => chosen.has(row.step_id));
  return html`<form class="panel bulk" ref=${form} onSubmit=${submit} aria-label="Judge what is chosen" aria-busy=${String(busy)}>
    <b role="status" data-figure="chosen">${steps(many)} chosen</b>
    ${more && html`<button type="button" class="small" onClick=${() => chosen.everything()}>Choose all ${int(count.count)} of the filter</button>`}
    <select name="kind" aria-label="What to say" value=${kind} onChange=${(event) => setKind(event.target.value)}>
      ${Object.entries(KINDS).map(([name, { title }]) => html`<option key=${name} value=${name}>${title}</option>`)}
    </select>
    ${KINDS[kind].fields(rows)}
    ${kind !== "note" && html`<input name="comment" aria-label="Why" placeholder="why (may be left out)" maxlength="10000" class="grow" />`}
    ${many > MOST && html`<span class="dim">At most ${int(MOST)} at once: narrow the filter.</span>`}
    <button type="submit" class="primary" disabled=${busy || many > MOST}>${KINDS[kind].verb}</button>
    <button type="button" class="bare" onClick=${() => chosen.clear()}>Choose none</button>
  </form>`;
}
