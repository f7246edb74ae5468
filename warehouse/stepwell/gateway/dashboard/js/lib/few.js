// The first of what may be very many, and a button for further ones: <${Few} of=${parts} most=${20} what="parts">${(part, index) => …}<//>
import { html, useState } from "./html.js";
import { int } from "./format.js";

export function Few({ of, most, what, children: drawn }) {
  const [shown, setShown] = useState(most);
  const rest = of.length - shown;
  return html`${of.slice(0, shown).map(drawn)}
    ${rest > 0 && html`<p><button type="button" class="small" onClick=${() => setShown(shown + most)}>${int(rest)} more ${what}</button></p>`}`;
}
