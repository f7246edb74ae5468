// Trajectories: the list, one trajectory as a tree, and one step of it, token by token.
import { html, useEffect } from "../lib/html.js";
import { style } from "../lib/style.js";
import { useApi, at } from "../lib/api.js";
import { Asked } from "../lib/panel.js";
import { id } from "../lib/format.js";
import { List } from "./trajectories/list.js";
import { Trajectory } from "./trajectories/trajectory.js";
import { Step } from "./trajectories/step.js";

await style("css/trajectories.css");

//   #/trajectories?of=steps&sort=-reward       the lists
//   #/trajectories/<trajectory>?step=<step>     a tree, and a step of it: tab=tokens&at=1200, tab=diff&with=<step>
//   #/trajectories?step=<step>                  a step of which only the id is known
export default function Trajectories({ path, params, go }) {
  if (path[0]) return html`<${Trajectory} key=${path[0]} name=${path[0]} params=${params} go=${go} />`;
  if (params.step) return html`<${Alone} params=${params} go=${go} />`;
  return html`<${List} params=${params} go=${go} />`;
}

// A step without a trajectory stands alone; any other is shown in its trajectory.
function Alone({ params, go }) {
  const asked = useApi(at`/steps/${params.step}`);
  const home = asked.data?.step_id === params.step ? asked.data.trajectory_id : null;
  useEffect(() => {
    if (home !== null) go({}, { path: [home], replace: true });
  }, [home]);
  return html`<div class="head"><h1>Step <span class="mono">${id(params.step, 60)}</span></h1><div class="tools"><a href="#/trajectories">All trajectories</a></div></div>
    <${Asked} of=${asked}>${(step) => step.trajectory_id === null && html`<${Step} key=${step.step_id} asked=${asked} name=${params.step} params=${params} go=${go} />`}<//>`;
}
