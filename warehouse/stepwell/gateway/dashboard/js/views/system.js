// System: what is stored, where calls go, who may come in, and how everything is set.
import { html } from "../lib/html.js";
import { Asked, Choice } from "../lib/panel.js";
import { inert, time } from "../lib/format.js";
import { style } from "../lib/style.js";
import { useApi } from "../lib/api.js";
import { Routes } from "./system/routes.js";
import { Settings } from "./system/settings.js";
import { Storage } from "./system/storage.js";
import { Tokens } from "./system/tokens.js";

await style("css/system.css");

const PARTS = [
  ["storage", "Storage"],
  ["routes", "Routes"],
  ["tokens", "Tokens"],
  ["settings", "Settings"],
];
const SHOWN = { storage: Storage, routes: Routes, tokens: Tokens, settings: Settings };

export default function System({ path: [named], params, go }) {
  const part = named in SHOWN ? named : "storage";
  const asked = useApi("/system", {}, { every: 10_000 });
  const to = (name) => go({ q: null }, { path: name === "storage" ? [] : [name] });
  return html`<div class="head"><h1>System</h1><${Choice} label="Part" value=${part} options=${PARTS} onChange=${to} />
      <div class="tools dim">${asked.data ? html`<span>data in <code>${inert(asked.data.data)}</code>, as of ${time(asked.data.at)}</span>` : ""}</div></div>
    <${Asked} of=${asked}>${(system) => html`<${SHOWN[part]} system=${system} params=${params} go=${go} />`}<//>`;
}
