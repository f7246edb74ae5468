// The five stages that a step goes through, with today's numbers and what there is in all.
import { html } from "../../lib/html.js";
import { int, many, num } from "../../lib/format.js";
import { href } from "../../lib/url.js";

export function Flow({ stats: { today = {}, steps, trajectories, groups } }) {
  const stages = [
    ["Collect", href("collect"), today.calls, "calls", `${many(steps.steps, "step")} in all`],
    ["Trajectories", href("trajectories"), today.trajectories, "trajectories", `${int(trajectories.trajectories)} in all, ${int(trajectories.open)} open`],
    ["Curate", href("curate"), today.events, "events", `${many(today.rewards, "reward")}; ${int(trajectories.rewarded)} of ${many(trajectories.trajectories, "trajectory", "trajectories")} rewarded`],
    ["Optimise", href("optimise"), groups.ready, "groups ready", `of ${int(groups.groups)}; ${num(trajectories.trainable_steps)} trainable ${trajectories.trainable_steps === 1 ? "step" : "steps"}`],
    ["Consume", href("consume"), today.datasets, "dataset versions", "made today"],
  ];
  return html`<ol class="flow">
    ${stages.map(([name, to, value, unit, all]) => html`<li key=${name}>
      <a href=${to}><span class="stage">${name}</span><span class="value">${int(value)}</span><span class="unit">${unit}</span><span class="dim">${all}</span></a>
    </li>`)}
  </ol>`;
}
