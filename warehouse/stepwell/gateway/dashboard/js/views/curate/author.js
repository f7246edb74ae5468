// In whose name one judges. It is kept in this browser, for the next time.
import { html, useEffect, useState } from "../../lib/html.js";

const KEY = "stepwell.author";
const EVENT = "stepwell:author";

export const author = () => localStorage.getItem(KEY) || "curator";

export function useAuthor() {
  const [name, setName] = useState(author);
  useEffect(() => {
    const changed = () => setName(author());
    addEventListener(EVENT, changed);
    return () => removeEventListener(EVENT, changed);
  }, []);
  return name;
}

export function Author() {
  const name = useAuthor();
  const set = (event) => {
    const said = event.target.value.trim().slice(0, 256);
    if (said) localStorage.setItem(KEY, said);
    else localStorage.removeItem(KEY);
    event.target.value = author();
    dispatchEvent(new Event(EVENT));
  };
  return html`<label class="author">You judge as <input key=${name} defaultValue=${name} onChange=${set} maxlength="256" size="12" title="Of what one author says of one thing, the last counts; what several say stands side by side" /></label>`;
}
