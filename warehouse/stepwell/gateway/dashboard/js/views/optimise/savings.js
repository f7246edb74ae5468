// Where the savings are: the parts of the tree that save most by themselves.
import { html } from "../../lib/html.js";
import { Empty, Panel } from "../../lib/panel.js";
import { href } from "../../lib/url.js";
import { id, int, line, percent } from "../../lib/format.js";

const MOST = 12;

export function Savings({ tree, zoom }) {
  const top = tree.rows.filter((one) => one.saved > 0).sort((a, b) => b.saved - a.saved).slice(0, MOST);
  return html`<${Panel} title="Where the savings are" hint=${tree.node === null ? "" : "within what is looked at"}>
    ${!top.length ? html`<${Empty}>No two of these steps share a beginning: merging saves nothing here.<//>` : html`<div class="scroll" role="region" aria-label="Where the savings are" tabindex="0"><table class="plain">
      <thead><tr><th scope="col">Part</th><th scope="col" class="right">Tokens</th><th scope="col" class="right">Shared by</th><th scope="col" class="right">Saves</th><th scope="col" class="right">Of all</th><th scope="col" class="right">With what follows</th><th scope="col">A step that has it</th></tr></thead>
      <tbody>${top.map((one) => html`<tr key=${one.node}>
        <th scope="row">${one.node === tree.node ? html`from ${int(one.position)}` : html`<button type="button" class="small" onClick=${() => zoom(one.node)}>from ${int(one.position)}</button>`}</th>
        <td class="right">${int(one.tokens)}</td><td class="right">${int(one.steps)}</td><td class="right">${int(one.saved)}</td><td class="right">${percent(one.saved, tree.saved)}</td><td class="right">${int(one.subtree_saved)}</td>
        <td class="mono"><a href=${href("curate", ["step", one.step_id])} title=${line(one.step_id, 400)}>${id(one.step_id, 36)}</a></td></tr>`)}</tbody>
    </table></div>`}
  <//>`;
}
