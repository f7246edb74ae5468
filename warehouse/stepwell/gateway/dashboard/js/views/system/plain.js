// A small table that is all there: columns [{label, right, mono, cell}], the first one names the row.
import { cls, html } from "../../lib/html.js";

export function Plain({ label, columns, rows, keyOf }) {
  return html`<div class="scroll" role="region" aria-label=${label} tabindex="0"><table class="plain">
    <thead><tr>${columns.map((one) => html`<th key=${one.label} scope="col" class=${cls(one.right && "right")}>${one.label}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr key=${keyOf(row)}>${columns.map((one, at) => {
      const shown = one.cell(row);
      return at === 0 ? html`<th key=${one.label} scope="row" class=${cls(one.mono && "mono")}>${shown}</th>` : html`<td key=${one.label} class=${cls(one.right && "right", one.mono && "mono")}>${shown}</td>`;
    })}</tr>`)}</tbody>
  </table></div>`;
}
