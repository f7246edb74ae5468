// A better answer, written from the one that was given.
import { html, useEffect, useRef, useState } from "../../lib/html.js";
import { int } from "../../lib/format.js";
import { toast } from "../../lib/toast.js";
import { say, takeBack } from "./judge.js";

export function Correction({ step, was, draft, setDraft, done, cancel }) {
  const [busy, setBusy] = useState(false);
  const field = useRef(null);
  useEffect(() => {
    field.current.value = draft ?? was;
    field.current.focus();
  }, []);
  const text = draft ?? was;
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    const said = await say(step.step_id, { correction: message(step.response, field.current.value) }, "A better answer");
    setBusy(false);
    if (!said) return;
    toast("The better answer is kept", { undo: () => takeBack(said).then((good) => good && (toast("Undone: the better answer"), done())) });
    done();
  };
  const lost = (step.response?.content ?? []).filter?.((part) => part?.type === "tool_call").length ?? 0;
  return html`<form class="correction" onSubmit=${submit} onKeyDown=${(event) => (event.ctrlKey || event.metaKey) && event.key === "Enter" && submit(event)}>
    <label>A better answer <textarea ref=${field} rows="8" required onInput=${(event) => setDraft(event.target.value)} spellcheck="true"></textarea></label>
    ${lost > 0 && html`<p class="dim">Its ${int(lost)} tool ${lost === 1 ? "call stays as it is" : "calls stay as they are"}.</p>`}
    <div class="row">
      <button type="submit" class="primary" disabled=${busy || text === was || !text.trim()}>Keep as the better answer</button>
      <button type="button" onClick=${cancel}>Cancel</button>
      <span class="dim">${changed(was, text)} · <kbd>Ctrl</kbd> <kbd>Enter</kbd> keeps it</span>
    </div>
  </form>`;
}

// The answer with its text replaced: thoughts are left out, since they led to another answer; tool calls stay.
export function message(response, text) {
  const calls = Array.isArray(response?.content) ? response.content.filter((part) => part?.type === "tool_call") : [];
  return { role: "assistant", content: [{ type: "text", text }, ...calls] };
}

function changed(was, now) {
  if (was === now) return "as it was";
  let head = 0;
  while (head < was.length && was[head] === now[head]) head++;
  let tail = 0;
  while (tail < Math.min(was.length, now.length) - head && was[was.length - 1 - tail] === now[now.length - 1 - tail]) tail++;
  return `${int(was.length - head - tail)} characters replaced by ${int(now.length - head - tail)}`;
}
