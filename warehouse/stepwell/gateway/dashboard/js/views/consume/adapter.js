// The fields that a trainer gets of the first optimizer step: names, types, shapes.
import { html } from "../../lib/html.js";
import { Empty, Panel } from "../../lib/panel.js";
import { inert, int } from "../../lib/format.js";

export function Adapter({ adapter }) {
  return html`<${Panel} title=${`What ${adapter.trainer} gets`} hint=${`${int(adapter.rows)} rows${adapter.function ? ` by adapters.${adapter.function}` : ""}`}>
    ${adapter.fields === null ? html`<${Empty}>${inert(adapter.left_out)}<//>` : html`<div class="scroll" role="region" aria-label="Fields" tabindex="0"><table class="plain">
      <thead><tr><th scope="col">Field</th><th scope="col">Type</th><th scope="col">Shape</th></tr></thead>
      <tbody>${rows(adapter.fields).map(([name, type, shape]) => html`<tr key=${name}><th scope="row" class="mono keep">${inert(name)}</th><td class="mono">${inert(type)}</td><td class="mono">${inert(shape)}</td></tr>`)}</tbody>
    </table></div>`}
  <//>`;
}

// A form (see the gateway's POST /batches/preview) as rows: [path, type, shape].
function rows(form, path = "") {
  if (form === null || form === undefined) return [[path || "it", "nothing", ""]];
  if (typeof form === "string") return [[path || "it", form, ""]];
  if ("dtype" in form && "shape" in form) return [[path || "it", form.dtype, `(${form.shape.join(", ")})`]];
  if ("items" in form && "each" in form && Object.keys(form).length === 2) return [[path || "it", "list", `${int(form.items)}`], ...(form.each === null ? [] : rows(form.each, `${path}[]`))];
  return Object.entries(form).flatMap(([name, one]) => rows(one, path ? `${path}.${name}` : name));
}
