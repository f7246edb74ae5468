// Dialogs. `await confirm({title, text, yes, danger})` is true or false; <${Dialog} open title onClose>…</> is for anything else.
import { html, useEffect, useId, useRef, useState } from "./html.js";

let ask = () => Promise.resolve(false);
export const confirm = (question) => ask(question);

export function Dialog({ title, onClose, children, wide = false }) {
  const element = useRef(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    dialog.showModal();
    return () => dialog.close();
  }, []);
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-labelledby=${id}
    onCancel=${(event) => (event.preventDefault(), onClose())}
    onClick=${(event) => event.target === element.current && onClose()}>
    <div class="dialog">
      <header><h2 id=${id}>${title}</h2><button type="button" class="bare" aria-label="Close" onClick=${onClose}>×</button></header>
      ${children}
    </div>
  </dialog>`;
}

// Rendered once by the shell: where `confirm` shows itself.
export function Confirm() {
  const [question, setQuestion] = useState(null);
  useEffect(() => {
    ask = (asked) => new Promise((resolve) => setQuestion({ ...asked, resolve }));
    return () => (ask = () => Promise.resolve(false));
  }, []);
  if (!question) return null;
  const answer = (value) => () => (setQuestion(null), question.resolve(value));
  return html`<${Dialog} title=${question.title} onClose=${answer(false)}>
    <p>${question.text}</p>
    <footer>
      <button type="button" onClick=${answer(false)} autofocus=${question.danger}>Cancel</button>
      <button type="button" class=${question.danger ? "danger" : "primary"} onClick=${answer(true)} autofocus=${!question.danger}>${question.yes || "Yes"}</button>
    </footer>
  <//>`;
}
