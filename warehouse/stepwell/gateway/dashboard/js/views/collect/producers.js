// Who brings records: the spools on the gateway's machine, and the clients that submitted lately.
import { html } from "../../lib/html.js";
import { Asked, Badge, Panel } from "../../lib/panel.js";
import { NONE, ago, bytes, duration, id, int, line, time } from "../../lib/format.js";
import { useApi } from "../../lib/api.js";

const EVERY = 3000;

export function Producers() {
  const asked = useApi("/producers", {}, { every: EVERY });
  const ingest = asked.data && html`<${Badge} tone=${asked.data.ingest_alive ? "good" : "bad"}>${asked.data.ingest_alive ? "ingest runs" : "no ingest runs"}<//>`;
  return html`<${Panel} title="Spools" hint="of proxies, gateways and imports on the gateway's machine" tools=${ingest}>
      <${Asked} of=${asked} empty=${[(said) => !said.items.length, "No spool yet: nothing has been recorded here."]}>
        ${({ items, totals }) => html`<${Plain} label="Spools" left=${3} names=${["Producer", "State", "Spool", "Recorded", "Committed", "Waiting", "Oldest waits", "Lost", "Size", "Last record"]}>
          ${items.map((spool) => html`<${Spool} key=${spool.name} spool=${spool} />`)}
          <tr class="sum"><th scope="row" colspan="3">Together</th><td class="right">${int(totals.accepted)}</td><td class="right">${int(totals.committed)}</td>
            <td class="right">${int(totals.lag)}</td><td class="right">${duration(totals.waited_s)}</td><td class="right">${int(totals.lost)}</td><td class="right">${bytes(totals.bytes)}</td><td></td></tr>
        <//>`}
      <//>
    <//>
    <${Panel} title="Clients" hint="that submitted since the gateway started, the last one first">
      <${Asked} of=${asked} empty=${[(said) => !said.clients.length, "No client has submitted since the gateway started."]}>
        ${({ clients }) => html`<${Plain} label="Clients" left=${3} names=${["Client", "Address", "Project", "Requests", "Refused", "First seen", "Last seen"]}>
          ${clients.map((one) => html`<${Client} key=${`${one.user_agent} ${one.address} ${one.project}`} client=${one} />`)}
        <//>`}
      <//>
    <//>`;
}

// A small table that is all there; the columns behind the first `left` are figures.
function Plain({ label, names, left, children }) {
  return html`<div class="scroll" role="region" aria-label=${label} tabindex="0"><table class="plain">
    <thead><tr>${names.map((name, at) => html`<th key=${name} scope="col" class=${at >= left ? "right" : ""}>${name}</th>`)}</tr></thead>
    <tbody>${children}</tbody>
  </table></div>`;
}

function Spool({ spool }) {
  const state = spool.kind === "unreadable" ? ["bad", "cannot be read"] : spool.alive ? ["good", "runs"] : [spool.lag ? "warn" : "", "ended"];
  return html`<tr>
    <th scope="row">${line(spool.kind, 40)} <span class="mono dim" title=${line(spool.producer ?? "", 400)}>${id(spool.producer, 16)}</span></th>
    <td><${Badge} tone=${state[0]}>${state[1]}<//></td><td class="mono">${line(spool.name, 60)}</td>
    <td class="right">${int(spool.accepted)}</td><td class="right">${int(spool.committed)}</td><td class="right">${int(spool.lag)}</td>
    <td class="right">${spool.lag ? duration(spool.waited_s) : NONE}</td>
    <td class="right">${spool.lost ? html`<${Badge} tone="bad">${int(spool.lost)}<//>` : int(spool.lost)}</td>
    <td class="right">${bytes(spool.bytes)}</td><td class="right" title=${time(spool.last_at)}>${ago(spool.last_at)}</td>
  </tr>`;
}

function Client({ client }) {
  return html`<tr><th scope="row">${line(client.user_agent, 120) || "says no name"}</th><td>${line(client.address, 60)}</td><td>${line(client.project ?? NONE, 60)}</td>
    <td class="right">${int(client.requests)}</td>
    <td class="right">${client.refused ? html`<${Badge} tone="warn">${int(client.refused)}<//>` : int(client.refused)}</td>
    <td class="right" title=${time(client.first_at)}>${ago(client.first_at)}</td><td class="right" title=${time(client.last_at)}>${ago(client.last_at)}</td></tr>`;
}
