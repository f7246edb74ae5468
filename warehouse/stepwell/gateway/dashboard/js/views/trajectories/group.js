// The neighbours of a step in its prompt group: the trajectories that it is compared with, and their steps at the same turn.
import { html } from "../../lib/html.js";
import { Asked, Badge, Empty } from "../../lib/panel.js";
import { Table, usePages } from "../../lib/table.js";
import { at, useApi } from "../../lib/api.js";
import { href, visit } from "../../lib/url.js";
import { id, int, line, signed } from "../../lib/format.js";
import { Status, produced, seen } from "./marks.js";
import { State, rewardOf } from "./columns.js";

export function Group({ step, go }) {
  if (step.group_id === null) return html`<${Empty}>The step is in no prompt group.<//>`;
  return html`<${Summary} step=${step} />${step.turn !== null && html`<${Neighbours} step=${step} go=${go} />`}`;
}

function Summary({ step }) {
  const asked = useApi(at`/groups/${step.group_id}`);
  return html`<${Asked} of=${asked}>${(group) => html`<h3>Group <a class="mono" href=${href("trajectories", [], { group_id: group.group_id })}>${id(group.group_id, 40)}</a>
      ${" "}<${Badge} tone=${group.ready ? "good" : "warn"}>${group.ready ? "ready" : "not ready"}<//>
      ${group.zero_variance && html` <${Badge} tone="warn" title="Its rewards are all the same: nothing is learned by comparing them">no variance<//>`}</h3>
    <dl class="strip"><div><dt>Trajectories</dt><dd data-figure="group trajectories">${int(group.trajectories)} <span class="dim">${int(group.ended)} ended</span></dd></div>
      <div><dt>Rewarded</dt><dd data-figure="group rewarded">${int(group.rewarded)}</dd></div>
      <div><dt>Mean reward</dt><dd data-figure="group mean">${signed(group.reward_mean)} <span class="dim">± ${signed(group.reward_std).replace("+", "")}</span></dd></div></dl>
    ${group.waits_for.map((wait) => html`<p key=${wait.reason} class="dim">${line(wait.text, 200)}: ${int(wait.count)}</p>`)}
    <div class="scroll"><table class="plain members" aria-label="Trajectories of the group">
      <thead><tr><th scope="col">Trajectory</th><th scope="col">State</th>${["Reward", "Steps", "Sampled"].map((name) => html`<th key=${name} scope="col" class="right">${name}</th>`)}</tr></thead>
      <tbody>${group.members.slice(0, MOST).map((one) => html`<tr key=${one.trajectory_id} aria-current=${one.trajectory_id === step.trajectory_id ? "true" : undefined}>
        <th scope="row" class="mono"><a href=${href("trajectories", [one.trajectory_id])}>${id(one.trajectory_id, 34)}</a></th><td><${State} state=${one.state} /></td>
        <td class="right">${signed(one.trajectory_reward)}</td><td class="right">${int(one.steps)}</td><td class="right">${int(one.response_tokens)}</td></tr>`)}</tbody></table></div>
    ${group.members.length > MOST && html`<p><a href=${href("trajectories", [], { group_id: group.group_id })}>All ${int(group.trajectories)} trajectories</a></p>`}`}<//>`;
}

const MOST = 64;

function Neighbours({ step, go }) {
  const pages = usePages("/steps", { group_id: step.group_id, where: `turn = ${step.turn}`, sort: "trajectory_id" });
  const compare = (row) => html`<button type="button" class="small" aria-label=${`compare with ${id(row.step_id)}`}
    onClick=${() => go({ tab: "diff", with: row.step_id }, { replace: true })}>compare</button>`;
  const columns = [
    { name: "step", label: "Step", class: "mono", cell: (row) => id(row.step_id, 24), title: (row) => line(row.step_id, 300) },
    { name: "trajectory", label: "Trajectory", width: "28%", class: "mono", cell: (row) => id(row.trajectory_id, 22), title: (row) => line(row.trajectory_id ?? "", 300) },
    { name: "reward", label: "Reward", width: "74px", align: "right", cell: (row) => signed(rewardOf(row)) },
    { name: "prompt", label: "Prompt", width: "72px", align: "right", cell: seen },
    { name: "answer", label: "Answer", width: "70px", align: "right", cell: produced },
    { name: "status", label: "Status", width: "90px", cell: (row) => html`<${Status} status=${row.status} />` },
    { name: "diff", label: "Prompts", width: "96px", cell: (row) => row.step_id !== step.step_id && compare(row) },
  ];
  return html`<h3>Steps at the same turn (${int(step.turn)})</h3>
    <div class="group-steps"><${Table} label="Steps at the same turn" columns=${columns} pages=${pages} rowKey="step_id" height="320px" mark=${(row) => row.step_id === step.step_id && "current"}
      onOpen=${(row) => visit(href("trajectories", row.trajectory_id === null ? [] : [row.trajectory_id], { step: row.step_id, tab: "group" }))} /></div>`;
}
