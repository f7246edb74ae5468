// One version of a dataset: what it is, where it comes from, how it is read.
import { html } from "../../lib/html.js";
import { Asked, Badge, Panel, Stat } from "../../lib/panel.js";
import { Copy, Text } from "../../lib/text.js";
import { ago, id, inert, int, line, signed, time } from "../../lib/format.js";
import { at, del, useApi } from "../../lib/api.js";
import { complain, toast } from "../../lib/toast.js";
import { confirm } from "../../lib/dialog.js";
import { href, visit } from "../../lib/url.js";
import { Download } from "./download.js";

export function Dataset({ rest: [label] }) {
  const asked = useApi(label ? at`/datasets/${label}` : null);
  return html`<p><a href=${href("consume")}>← all datasets</a></p><${Asked} of=${asked}>${(dataset) => html`<${Version} dataset=${dataset} reload=${asked.reload} />`}<//>`;
}

function Version({ dataset, reload }) {
  const { name, version, versions, lineage } = dataset;
  const label = `${name}@${version}`;
  const before = versions[versions.indexOf(version) - 1] ?? versions.find((one) => one !== version);
  const remove = async () => {
    const text = `${dataset.pinned ? "It is pinned. " : ""}Its entry, its rows and its pins go; the steps stay, and the number is not given again.`;
    if (!(await confirm({ title: `Delete ${line(label, 80)}?`, text, yes: "Delete", danger: true }))) return;
    try {
      await del(at`/datasets/${label}`, { force: dataset.pinned });
      toast(`Deleted ${line(label, 80)}`);
      const next = versions.length > 1 ? href("consume", ["dataset", name]) : href("consume");
      if (location.hash === next) reload();
      else visit(next, { replace: true });
    } catch (error) {
      complain(error);
    }
  };
  return html`<div class="dataset-head"><h2>${line(name, 120)}</h2>
      <label>version <select value=${version} onChange=${(event) => visit(href("consume", ["dataset", `${name}@${event.target.value}`]))}>
        ${versions.map((one) => html`<option key=${one} value=${one}>${one}${one === versions.at(-1) ? " (newest)" : ""}</option>`)}</select></label>
      ${dataset.pinned && html`<${Badge} tone="accent">pinned<//>`}
      <div class="tools">
        ${before && html`<a href=${href("consume", ["compare", name], { a: Math.min(before, version), b: Math.max(before, version) })}>Compare with version ${before}</a>`}
        <a href=${href("consume", ["preview"], { dataset: label })}>Preview its batches</a>
        <a href=${href("optimise", [], { dataset: label })}>See its prefix tree</a>
        <button type="button" class="small danger" onClick=${remove}>Delete</button>
      </div></div>
    <div class="stats">
      <${Stat} label="Steps" value=${int(dataset.steps)} detail=${lineage?.forgotten ? `${int(forgotten(lineage))} forgotten since` : "frozen"} tone=${lineage?.forgotten ? "warn" : ""} />
      <${Stat} label="Trajectories" value=${int(lineage?.trajectories)} detail=${`${int(lineage?.groups)} groups`} />
      <${Stat} label="Commit" value=${int(dataset.at_commit)} detail="of the warehouse" />
      <${Stat} label="Made" value=${ago(dataset.created_at)} detail=${time(dataset.created_at)} />
    </div>
    <div class="columns">
      <${Panel} title="What it is">
        <dl class="facts"><dt>Selected by</dt><dd><${Text} text=${dataset.filter} label="condition" first=${600} /></dd>
          ${dataset.note && html`<dt>Note</dt><dd>${inert(dataset.note)}</dd>`}
          <dt>Fingerprint</dt><dd class="mono">${id(dataset.fingerprint, 24)} <${Copy} text=${dataset.fingerprint} /></dd></dl>
      <//>
      <${Panel} title="How it is read"><${Code} code=${dataset.code} /><${Download} label=${label} steps=${dataset.steps} /><//>
    </div>
    <${Lineage} lineage=${lineage} />`;
}

const forgotten = ({ forgotten: said }) => (typeof said === "number" ? said : said?.steps ?? said?.count);

const WORDS = { reader: "By a trainer", table: "As a table", shell: "As a file" };

function Code({ code = {} }) {
  return html`<dl class="code">${Object.entries(code).map(([name, said]) => html`<div key=${name}><dt>${WORDS[name] ?? inert(name)}</dt><dd><code data-code=${name}>${inert(said)}</code><${Copy} text=${said} /></dd></div>`)}</dl>`;
}

// Numbers by name as small tables; what is one value, as a fact.
function Lineage({ lineage }) {
  const said = Object.entries(lineage ?? {}).filter(([name]) => !["columns", "trajectories", "groups"].includes(name));
  return html`<${Panel} title="Where it comes from">
    <dl class="facts">${said.map(([name, value]) => html`<dt key=${`${name}t`}>${inert(name.replaceAll("_", " "))}</dt><dd key=${`${name}d`} data-lineage=${name}><${Value} name=${name} value=${value} /></dd>`)}</dl>
  <//>`;
}

function Value({ name, value }) {
  if (value === null || value === undefined || (Array.isArray(value) && !value.length)) return html`<span class="dim">none</span>`;
  if (name === "datasets" && Array.isArray(value)) return value.map((one) => html`<a key=${one} href=${href("consume", ["dataset", String(one)])}>${line(String(one), 80)}</a> `);
  if (Array.isArray(value)) return value.map((one, at) => html`<${Badge} key=${at}>${typeof one === "object" ? line(words(one), 80) : line(String(one), 80)}<//> `);
  if (typeof value === "object") return Object.entries(value).map(([key, one]) => html`<${Badge} key=${key}>${line(key, 60)} ${typeof one === "number" ? int(one) : line(String(one), 60)}<//> `);
  return typeof value === "number" ? (Number.isInteger(value) ? int(value) : signed(value)) : inert(String(value));
}

const words = (one) => Object.values(one).filter((value) => value !== null).join(" ");
