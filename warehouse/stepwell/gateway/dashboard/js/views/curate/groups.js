// Prompt groups: whose rewards are all the same teach nothing where advantages are taken within the group.
import { cls, html } from "../../lib/html.js";
import { Badge, Stat } from "../../lib/panel.js";
import { Filters } from "../../lib/filters.js";
import { NONE, ago, id, int, line, percent, signed, time } from "../../lib/format.js";
import { Table, usePages } from "../../lib/table.js";
import { href, visit } from "../../lib/url.js";
import { useApi } from "../../lib/api.js";

const FIELDS = [
  { name: "zero_variance", label: "one reward only", kind: "flag" },
  { name: "ready", label: "ready", kind: "flag" },
  { name: "stalled", label: "stalled", kind: "flag" },
  { name: "has_reward", label: "has a reward", kind: "flag" },
  { name: "reward_min", label: "mean reward at least", kind: "number" },
  { name: "reward_max", label: "mean reward at most", kind: "number" },
  { name: "split", label: "split", kind: "choice", options: [["train", "train"], ["eval", "eval"]] },
  { name: "prompt_id", label: "prompt", kind: "text" },
  { name: "where", label: "SQL condition", kind: "text", hint: "reward_std < 0.1" },
];

const COLUMNS = [
  { name: "group_id", label: "Group", sort: true, class: "mono", cell: (group) => id(group.group_id, 36), title: (group) => line(group.group_id, 400) },
  { name: "prompt_id", label: "Prompt", sort: true, class: "mono", width: "13%", cell: (group) => id(group.prompt_id, 20) },
  { name: "trajectories", label: "Trajectories", sort: true, align: "right", width: "120px", cell: (group) => int(group.trajectories) },
  { name: "rewarded", label: "Rewarded", sort: true, align: "right", width: "100px", cell: (group) => int(group.rewarded) },
  { name: "reward_mean", label: "Mean reward", sort: true, align: "right", width: "116px", cell: (group) => signed(group.reward_mean) },
  { name: "reward_std", label: "Spread", sort: true, align: "right", width: "86px", cell: (group) => (group.reward_std === null ? NONE : signed(group.reward_std).replace("+", "")) },
  { name: "range", label: "From – to", width: "170px", cell: (group) => html`<${Range} group=${group} />` },
  { name: "state", label: "State", width: "190px", cell: (group) => html`<${State} group=${group} />` },
  { name: "policy_version", label: "Versions", align: "right", width: "90px", cell: (group) => versions(group) },
  { name: "last_at", label: "Last step", sort: true, width: "116px", cell: (group) => ago(group.last_at), title: (group) => time(group.last_at) },
];

function Range({ group }) {
  if (group.reward_min === null || group.reward_min === undefined) return NONE;
  return html`${signed(group.reward_min)}<span class=${cls("spread", group.zero_variance && "none")} aria-hidden="true" />${signed(group.reward_max)}`;
}

function State({ group }) {
  return html`${group.zero_variance && html`<${Badge} tone="warn" title="Its advantages are all 0 where they are taken within the group">one reward only<//> `}
    ${group.ready ? html`<${Badge} tone="good">ready<//>` : html`<${Badge} title=${waits(group)}>waits<//>`}`;
}

const waits = ({ open, unrewarded, missing }) => [[open, "not ended"], [unrewarded, "without a reward"], [missing, "not begun"]].filter(([count]) => count > 0).map(([count, words]) => `${int(count)} ${words}`).join(", ");
const versions = ({ policy_version_min: from, policy_version_max: to }) => (from === to ? int(from) : `${int(from)}–${int(to)}`);

export function Groups({ params, go }) {
  const filter = Object.fromEntries(FIELDS.map(({ name }) => name).concat("q").filter((name) => params[name]).map((name) => [name, params[name]]));
  const pages = usePages("/groups", { ...filter, sort: params.sort ?? "-reward_std", cursor: params.cursor });
  const [all, ready, alike] = [{}, { ready: true }, { zero_variance: true }].map((more) => useApi("/groups", { ...filter, ...more, count: true, limit: 1 }).data?.count?.count);
  return html`<${Filters} fields=${FIELDS} params=${params} go=${go} search="Search in what was said" />
    <div class="stats">
      <${Stat} label="Groups" value=${int(all)} detail="of this filter" />
      <${Stat} label="Ready" value=${int(ready)} detail=${percent(ready, all)} href=${href("curate", ["groups"], { ...filter, ready: true })} />
      <${Stat} label="One reward only" value=${int(alike)} detail=${alike ? `${percent(alike, all)}: no gradient within the group` : "every rewarded group can teach"} tone=${alike ? "warn" : ""} href=${href("curate", ["groups"], { ...filter, zero_variance: true })} />
    </div>
    <${Table} label="Prompt groups" columns=${COLUMNS} pages=${pages} rowKey="group_id" sort=${params.sort ?? "-reward_std"} onSort=${(sort) => go({ sort, cursor: null })}
      onOpen=${(group) => visit(href("curate", [], { group_id: group.group_id }))} onFull=${(cursor) => go({ cursor })} empty="No group is like this." />`;
}
