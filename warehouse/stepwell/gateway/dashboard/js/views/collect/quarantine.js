// What could not be parsed: why, its bytes, and parsing it again with this version.
import { html } from "../../lib/html.js";
import { Panel } from "../../lib/panel.js";
import { Search } from "../../lib/filters.js";
import { Table, usePages } from "../../lib/table.js";
import { bytes, id, line, time } from "../../lib/format.js";
import { Record } from "./record.js";

const COLUMNS = [
  { name: "at", label: "When", width: "160px", cell: (row) => time(row.created_at) },
  { name: "reason", label: "Reason", cell: (row) => line(row.reason, 200), title: (row) => line(row.reason, 600) },
  { name: "dialect", label: "Dialect", width: "150px", cell: (row) => line(row.dialect ?? "unknown", 40) },
  { name: "size", label: "Size", width: "100px", align: "right", cell: (row) => bytes((row.request_bytes ?? 0) + (row.response_bytes ?? 0)) },
  { name: "trajectory", label: "Trajectory", width: "20%", class: "mono", cell: (row) => id(row.trajectory_id), title: (row) => line(row.trajectory_id ?? "", 400) },
  { name: "call", label: "Call", width: "20%", class: "mono", cell: (row) => id(row.exchange_id), title: (row) => line(row.exchange_id, 400) },
];

export function Quarantine({ rest: [record], params, to, go }) {
  const pages = usePages("/quarantine", { reason: params.q });
  return html`<${Panel} title="Quarantine" hint="calls that could not be read, kept with their bytes" class="quarantine">
      <div class="filters"><${Search} value=${params.q ?? ""} label="Words of the reason" onChange=${(q) => go({ q }, { replace: true })} /></div>
      <${Table} label="Quarantined calls" columns=${COLUMNS} pages=${pages} rowKey="exchange_id" onOpen=${(row) => to("quarantine", row.exchange_id)}
        empty=${params.q ? "No reason has these words." : "Nothing is quarantined: everything that came could be read."} />
    <//>
    ${record && html`<${Record} key=${record} record=${record} onClose=${() => to("quarantine")} onDone=${pages.reload} />`}`;
}
