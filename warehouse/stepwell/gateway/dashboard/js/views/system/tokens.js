// Who may come in: tokens by their ids. The tokens themselves nobody has; `stepwell token` makes and revokes them.
import { html } from "../../lib/html.js";
import { Asked, Badge, Panel } from "../../lib/panel.js";
import { ago, date, inert, line, time } from "../../lib/format.js";
import { useApi } from "../../lib/api.js";
import { Plain } from "./plain.js";

const SOON = 7 * 86_400_000;

const COLUMNS = [
  { label: "Token", mono: true, cell: (one) => inert(one.id) },
  { label: "Scopes", cell: (one) => one.scopes.map((scope) => html`<${Badge} key=${scope} tone=${scope === "admin" ? "warn" : "accent"}>${inert(scope)}<//> `) },
  { label: "Project", cell: (one) => (one.project ? line(one.project, 80) : html`<span class="dim">any</span>`) },
  { label: "Note", cell: (one) => line(one.note ?? "", 200) },
  { label: "Made", cell: (one) => html`<span title=${time(one.created_at)}>${ago(one.created_at)}</span>` },
  { label: "Last used", cell: (one) => (one.used_at ? html`<span title=${time(one.used_at)}>${ago(one.used_at)}</span>` : html`<span class="dim">never</span>`) },
  { label: "Expires", cell: (one) => html`<${Expiry} at=${one.expires_at} />` },
];

function Expiry({ at }) {
  if (!at) return html`<span class="dim">never</span>`;
  const left = date(at) - Date.now();
  return html`<${Badge} tone=${left < 0 ? "bad" : left < SOON ? "warn" : ""}>${left < 0 ? "expired" : "until"} ${time(at)}<//>`;
}

export function Tokens() {
  const asked = useApi("/system/tokens", {}, { every: 10_000 });
  return html`<${Panel} title="Tokens" hint="besides the installation's own, which may do everything from this machine">
    <${Asked} of=${asked} empty=${[(said) => !said.items.length, html`No tokens. <code>stepwell token create --scope read</code> makes one.`]}>
      ${({ items }) => html`<${Plain} label="Tokens" columns=${COLUMNS} rows=${items} keyOf=${(one) => one.id} />`}
    <//>
    <p class="dim">Make one with <code>stepwell token create</code>, revoke it with <code>stepwell token revoke</code>: this page shows them, and cannot.</p>
  <//>`;
}
