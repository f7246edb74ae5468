// What one person may say of one step, by hand or by keys.
import { html, useRef, useState } from "../../lib/html.js";
import { Panel } from "../../lib/panel.js";
import { toast } from "../../lib/toast.js";
import { once, useKeys } from "../../lib/keys.js";
import { KINDS, SCALE } from "./kinds.js";
import { say, takeBack } from "./judge.js";

export function Judgement({ step, onSaid, correct, keys }) {
  const [busy, setBusy] = useState(false);
  const label = useRef(null);
  const note = useRef(null);
  const give = async (kind, form) => {
    const said = KINDS[kind].said(form);
    setBusy(true);
    const done = await say(step.step_id, said, KINDS[kind].words(said));
    setBusy(false);
    if (!done) return;
    toast(done.text, { undo: async () => (await takeBack(done)) && (toast(`Undone: ${done.text}`), onSaid()) });
    onSaid();
  };
  const submit = (kind) => (event) => {
    event.preventDefault();
    give(kind, Object.fromEntries(new FormData(event.target)));
    event.target.reset();
  };
  const barred = !step.trainable && (step.feedback ?? []).some((one) => one.kind === "trainable" && one.value === 0);
  const toggle = () => give(barred ? "trainable" : "untrainable", {});
  const rates = Array.from({ length: keys ? SCALE : 0 }, (_, i) => [`${i + 1}`, [`rate ${i + 1} of ${SCALE}`, once(() => busy || give("rating", { rating: i + 1 }))]]);
  useKeys({
    ...Object.fromEntries(rates),
    t: ["for training, or not", once(() => busy || toggle())],
    l: ["label", () => label.current.focus()],
    n: ["note", () => note.current.focus()],
    e: ["write a better answer", correct],
  });
  return html`<${Panel} title="Judge it" class="judgement">
    <fieldset disabled=${busy}>
      ${keys && html`<div class="rate" role="group" aria-label="Rate">${Array.from({ length: SCALE }, (_, i) => html`<button key=${i} type="button" aria-label=${`${i + 1} of ${SCALE}`} onClick=${() => give("rating", { rating: i + 1 })}>${i + 1}</button>`)}<span class="dim">of ${SCALE}</span></div>`}
      <form onSubmit=${submit("label")}><input ref=${label} name="word" required maxlength="256" aria-label="Label" placeholder="label" /><button type="submit">Label</button></form>
      <form onSubmit=${submit("tag")}><input name="word" required maxlength="200" aria-label="Tag" placeholder="tag, beside others" /><button type="submit">Tag</button></form>
      <form onSubmit=${submit("reward")}><input name="reward" type="number" step="any" required aria-label="Reward" placeholder="reward of this step" /><button type="submit">Reward</button></form>
      <form onSubmit=${submit("note")}><input ref=${note} name="comment" required maxlength="10000" aria-label="Note" placeholder="note" /><button type="submit">Note</button></form>
      <div class="row">
        <button type="button" onClick=${toggle}>${barred ? "Let it train again" : "Keep out of training"}</button>
        <button type="button" onClick=${correct}>Better answer…</button>
      </div>
    </fieldset>
    <p class="dim keys-hint">${keys && html`<kbd>1</kbd>–<kbd>${SCALE}</kbd> rate · `}<kbd>l</kbd> label · <kbd>n</kbd> note · <kbd>t</kbd> training · <kbd>e</kbd> better answer</p>
  <//>`;
}
