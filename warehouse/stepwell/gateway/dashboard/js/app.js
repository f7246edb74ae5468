// The shell: signing in, where one is, and the view of that place.
import { cls, html, render, useEffect, useErrorBoundary, useState } from "./lib/html.js";
import { Confirm, Dialog } from "./lib/dialog.js";
import { SignIn } from "./signin.js";
import { Toasts } from "./lib/toast.js";
import { Problem } from "./lib/panel.js";
import { apply, setTheme, theme, useTheme } from "./lib/theme.js";
import { begin, onSession, signOut, token } from "./lib/session.js";
import { get } from "./lib/api.js";
import { line } from "./lib/format.js";
import { href, onVisit, read, visit } from "./lib/url.js";
import { listed, useKeys } from "./lib/keys.js";

// [name, title, the key after g]
const VIEWS = [
  ["overview", "Overview", "o"],
  ["collect", "Collect", "c"],
  ["trajectories", "Trajectories", "t"],
  ["curate", "Curate", "u"],
  ["optimise", "Optimise", "p"],
  ["consume", "Consume", "n"],
  ["system", "System", "s"],
];

function App() {
  const [who, setWho] = useState(token()); // with another token everything is asked anew
  useEffect(() => onSession(setWho), []);
  return html`${who ? html`<${Shell} key=${who} />` : html`<${SignIn} />`}<${Toasts} /><${Confirm} />`;
}

function Shell() {
  const [place, setPlace] = useState(read);
  const [help, setHelp] = useState(false);
  const [about, setAbout] = useState(null);
  useEffect(() => onVisit(() => setPlace(read())), []);
  useEffect(() => void get("/version").then(setAbout, () => {}), []);
  useKeys({
    ...Object.fromEntries(VIEWS.map(([name, title, key]) => [`g ${key}`, [title, () => visit(href(name))]])),
    "?": ["these keys", () => setHelp(true)],
  });
  const named = VIEWS.find(([name]) => name === place.view);
  useEffect(() => void (document.title = `${named?.[1] ?? "Not found"} · Stepwell`), [named]);
  return html`<a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.getElementById("main").focus())}>Skip to the view</a>
    <header class="top">
      <a class="brand" href="#/overview"><img src="/assets/icon.svg" alt="" width="22" height="22" />Stepwell</a>
      <nav aria-label="Views">${VIEWS.map(([name, title]) => html`<a key=${name} href=${href(name)} aria-current=${name === place.view ? "page" : undefined}>${title}</a>`)}</nav>
      <div class="tools">
        <span class="dim version">${about ? `v${about.version}` : ""}</span>
        <${Theme} />
        <button type="button" class="bare" onClick=${() => setHelp(true)} aria-label="Keys">?</button>
        <button type="button" class="bare" onClick=${() => signOut({ everywhere: true })}>Sign out</button>
      </div>
    </header>
    <main id="main" tabindex="-1" class=${cls("view", `view-${named?.[0] ?? "none"}`)}>
      ${named ? html`<${View} key=${place.view} name=${place.view} title=${named[1]} place=${place} />` : html`<h1>Nothing here</h1><p>There is no view “${line(place.view)}”. <a href="#/overview">Overview</a></p>`}
    </main>
    ${help && html`<${Dialog} title="Keys" onClose=${() => setHelp(false)}>
      <dl class="keys">${listed().map(([keys, what]) => html`<div key=${keys}><dt><kbd>${keys}</kbd></dt><dd>${what}</dd></div>`)}</dl>
    <//>`}`;
}

// A view's module is loaded when it is first gone to. What fails in it is said in its place, and the rest goes on.
function View({ name, title, place }) {
  const [module, setModule] = useState(null);
  const [failed, setFailed] = useState(null);
  const [broken, mend] = useErrorBoundary((error) => console.error(error));
  useEffect(() => void import(`./views/${name}.js`).then(setModule, setFailed), [name]);
  useEffect(() => void (broken && mend()), [place]);
  // Whoever has left meanwhile, while an answer was on its way, say, is not called back.
  const go = (params, { path = place.path, replace = false } = {}) => {
    const now = read();
    if (href(now.view, now.path) === href(name, place.path)) visit(href(name, path, { ...now.params, ...params }), { replace });
  };
  const error = broken || failed;
  if (error) return html`<h1>${title}</h1><${Problem} error=${{ title: "This view failed.", message: error.message }} retry=${broken ? mend : () => location.reload()} />`;
  if (!module) return html`<h1 aria-busy="true">${title}</h1>`;
  return html`<${module.default} path=${place.path} params=${place.params} go=${go} />`;
}

function Theme() {
  useTheme();
  const next = { auto: "dark", dark: "light", light: "auto" }[theme()];
  const shown = { auto: "◐", dark: "●", light: "○" }[theme()];
  return html`<button type="button" class="bare" onClick=${() => setTheme(next)} aria-label=${`Colours: ${theme()}; change to ${next}`} title=${`Colours: ${theme()}`}>${shown}</button>`;
}

apply();
await begin();
render(html`<${App} />`, document.getElementById("app"));
