// What needs somebody: the gateway says what, how much, and where to look.
import { html } from "../../lib/html.js";
import { Asked, Badge, Panel } from "../../lib/panel.js";
import { inert, int } from "../../lib/format.js";
import { useApi } from "../../lib/api.js";

const TONES = { error: "bad", bad: "bad", critical: "bad", warning: "warn", warn: "warn" };

export function Attention() {
  const asked = useApi("/attention", {}, { every: 15_000 });
  return html`<${Panel} title="Needs attention" class="attention">
    <${Asked} of=${asked} empty=${[(said) => !said.items.length, "Nothing. Captures are kept, groups are complete, and what was committed can be read."]}>
      ${({ items }) => html`<ul>${items.map((item) => html`<li key=${item.kind}>
        <${Badge} tone=${TONES[item.severity] ?? ""}>${int(item.count)}<//>
        ${item.link ? html`<a href=${here(item.link)}>${inert(item.text)}</a>` : html`<span>${inert(item.text)}</span>`}
      </li>`)}</ul>`}
    <//>
  <//>`;
}

// The link is a place of this page, with or without its "#".
const here = (link) => (link.startsWith("#") ? link : `#${link.startsWith("/") ? "" : "/"}${link}`);
