// What was said of many at once, the last first; each can be taken back as a whole.
import { html } from "../../lib/html.js";
import { Asked, Badge, Panel } from "../../lib/panel.js";
import { ago, int, line, time } from "../../lib/format.js";
import { confirm } from "../../lib/dialog.js";
import { useApi } from "../../lib/api.js";
import { steps, undoMany } from "./judge.js";
import { inWords } from "./kinds.js";

export function Done() {
  const asked = useApi("/feedback/bulk");
  const undo = async (one) => {
    const text = "Each of them is taken back by an event of its own: what was said stays in the history.";
    if (await confirm({ title: `Undo “${words(one)}” of ${steps(one.steps)}?`, text, yes: "Undo" })) await undoMany(one.undo, words(one), asked.reload);
  };
  return html`<${Panel} title="Said of many at once" hint="the last first">
    <${Asked} of=${asked} empty=${[(said) => !said.items.length, "Nothing was said of many at once yet. Choose steps, and judge them together."]}>
      ${({ items }) => html`<div class="scroll" role="region" aria-label="Said of many at once" tabindex="0"><table class="plain">
        <thead><tr><th scope="col">What</th><th scope="col" class="right">Steps</th><th scope="col">By</th><th scope="col">When</th><th scope="col">State</th><th scope="col"><span class="hidden">Undo</span></th></tr></thead>
        <tbody>${items.map((one) => html`<tr key=${one.undo}>
          <th scope="row">${words(one)}</th><td class="right">${int(one.steps)}</td><td>${line(one.feedback.author, 60)}</td>
          <td title=${time(one.at)}>${ago(one.at)}</td><td>${one.undone_at ? html`<${Badge} title=${time(one.undone_at)}>undone<//>` : html`<${Badge} tone="good">counts<//>`}</td>
          <td class="right">${!one.undone_at && html`<button type="button" class="small" aria-label=${`Undo: ${words(one)}`} onClick=${() => undo(one)}>Undo</button>`}</td>
        </tr>`)}</tbody></table></div>`}
    <//>
  <//>`;
}

// As it was submitted: the field that says it tells the kind.
function words({ feedback }) {
  const kind = ["reward", "score", "rating", "label", "correction", "trainable", "retract"].find((one) => feedback[one] !== undefined && feedback[one] !== null) ?? "comment";
  const value = kind === "label" ? { text: feedback.label } : kind === "comment" ? { text: feedback.comment } : { value: Number(feedback[kind]) };
  return inWords({ kind, name: feedback.name, payload: { scale: feedback.scale }, ...value });
}
