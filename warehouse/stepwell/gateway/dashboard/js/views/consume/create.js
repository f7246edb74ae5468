// A dataset of the steps that a filter means now. The filter is in the address: Curate links to here with its own.
import { cls, html, useState } from "../../lib/html.js";
import { Asked, Panel, Problem } from "../../lib/panel.js";
import { Filters } from "../../lib/filters.js";
import { FIELDS, filterBody, filterOf, filterWords } from "../../lib/steps.js";
import { href } from "../../lib/url.js";
import { id, int, line, signed } from "../../lib/format.js";
import { post, useApi } from "../../lib/api.js";
import { toast } from "../../lib/toast.js";

const SAMPLE = 5;

export function Create({ params, go, to }) {
  const filter = filterOf(params);
  const none = !Object.keys(filter).length;
  const usual = { trainable: "true", split: "train", side: "false" };
  const all = useApi("/steps", { ...filter, count: true, limit: SAMPLE });
  const apt = useApi("/steps", { ...filter, trainable: true, superseded: false, count: true, limit: 1 });
  const names = useApi("/datasets");
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState(null);
  const submit = async (event) => {
    event.preventDefault();
    const { name, note, pin } = Object.fromEntries(new FormData(event.target));
    setBusy(true);
    setError(null);
    try {
      const made = await post("/datasets", { name: name.trim(), filter: filterBody(params), pin: pin === "on", ...(note.trim() ? { note: note.trim() } : {}) });
      toast(`Made ${line(made.name, 60)}@${made.version} of ${int(made.steps)} steps`);
      to("dataset", `${made.name}@${made.version}`);
    } catch (problem) {
      setError(problem);
    } finally {
      setBusy(false);
    }
  };
  return html`<${Panel} title="Which steps" hint=${filterWords(params)}>
      <${Filters} fields=${FIELDS} params=${params} go=${go} search="Search in what was said">
        ${none && html`<button type="button" class="small" onClick=${() => go(usual)}>what trains: trainable, split train, no side calls</button>`}
      <//>
      <${Asked} of=${all}>${({ count, items }) => html`<p class=${cls("chosen-figures", (all.stale || apt.stale) && "stale")}><b data-figure="count">${count.exact ? "" : "at least "}${int(count.count)}</b> steps are like this
          ${apt.data && html`, of which <b data-figure="apt">${int(apt.data.count.count)}</b> may be trained on`}. Attempts whose answer the client did not use are left out.</p>
        ${items.length > 0 && html`<p class="dim">${"The latest: "}${items.map((step, at) => html`${at > 0 && ", "}<a key=${step.step_id} class="mono" href=${href("curate", ["step", step.step_id], filter)}>${id(step.step_id, 24)}</a> ${signed(step.step_reward ?? step.trajectory_reward)}`)}</p>`}`}<//>
    <//>
    <${Panel} title="As what">
      <form class="making" onSubmit=${submit}>
        <label>Name <input name="name" required maxlength="200" list="dataset-names" autocomplete="off" placeholder="math" /></label>
        <datalist id="dataset-names">${[...new Set((names.data?.items ?? []).map((one) => one.name))].map((name) => html`<option key=${name} value=${name} />`)}</datalist>
        <label class="grow">Note <input name="note" maxlength="10000" placeholder="what it is for" /></label>
        <label class="tick"><input type="checkbox" name="pin" /> keep today's files, too (for plain LanceDB)</label>
        <button type="submit" class="primary" disabled=${busy || none || all.stale || !all.data?.count.count}>${busy ? "Making it…" : "Make the dataset"}</button>
      </form>
      <p class="dim">${none ? "Choose which steps first: a dataset of everything is rarely meant." : "An existing name gets its next version. Rewards and labels are frozen as they are now."}</p>
      ${error && html`<${Problem} error=${error} />`}
    <//>`;
}
