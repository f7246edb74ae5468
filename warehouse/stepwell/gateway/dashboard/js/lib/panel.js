// The pieces that views are made of.
import { html, useId } from "./html.js";
import { inert, int } from "./format.js";

// A titled part of a view. `tools`: what stands at the right of the title.
export function Panel({ title, tools, children, class: more = "", hint }) {
  const id = useId();
  return html`<section class="panel ${more}" aria-labelledby=${id}>
    <header><h2 id=${id}>${title}</h2>${hint && html`<span class="dim">${hint}</span>`}<div class="tools">${tools}</div></header>
    ${children}
  </section>`;
}

// What a question led to: its error in the gateway's words, a first waiting, or the children with the data.
// <${Asked} of=${api}>${(data) => html`…`}</>
export function Asked({ of, empty, children }) {
  if (of.error && !of.data) return html`<${Problem} error=${of.error} retry=${of.reload} />`;
  if (!of.data) return html`<p class="wait" role="status">Asking the gateway…</p>`;
  const nothing = empty && empty[0](of.data);
  return html`${of.error && html`<${Problem} error=${of.error} retry=${of.reload} />`}${nothing ? html`<${Empty}>${empty[1]}<//>` : children(of.data)}`;
}

export function Problem({ error, retry }) {
  if (error.status === 404 && error.message === "Not Found") {
    return html`<p class="empty">This gateway does not answer <code>${error.asked}</code>: it is of another version than this page.</p>`;
  }
  return html`<div class="problem" role="alert">
    <p><strong>${TITLES[error.status] || error.title || "It did not work."}</strong> ${inert(error.message)}</p>
    ${retry && html`<button type="button" class="small" onClick=${retry}>Try again</button>`}
  </div>`;
}

const TITLES = {
  0: "No answer.",
  403: "Not with this token.",
  404: "It is not there.",
  422: "That cannot be asked for.",
  429: "Too many requests.",
  503: "The gateway is busy.",
};

export const Empty = ({ children }) => html`<div class="empty">${children}</div>`;

// A figure with its name. `detail` is a second line; `href` makes it a link; `tone`: good, warn, bad.
export function Stat({ label, value, detail, href, tone = "", title }) {
  const inner = html`<span class="label">${label}</span><span class="value" title=${title}>${value}</span>
    <span class="detail">${detail ?? "\u00a0"}</span>`;
  return href ? html`<a class="stat ${tone}" href=${href}>${inner}</a>` : html`<div class="stat ${tone}">${inner}</div>`;
}

// Amounts side by side as bars: [{key, label, value, href}].
export function Bars({ rows, most = 8, label }) {
  const sum = rows.reduce((total, row) => total + row.value, 0);
  const top = Math.max(1, ...rows.map((row) => row.value));
  const shown = rows.slice(0, most);
  const rest = rows.length - shown.length;
  return html`<ul class="bars" aria-label=${label}>
    ${shown.map((row) => html`<li key=${row.key}>
      ${row.href ? html`<a class="name" href=${row.href} title=${row.label}>${row.label}</a>` : html`<span class="name" title=${row.label}>${row.label}</span>`}
      <span class="bar"><i style=${{ width: `${(100 * row.value) / top}%` }} /></span>
      <span class="count">${int(row.value)}</span><span class="share">${sum ? `${Math.round((100 * row.value) / sum)} %` : ""}</span>
    </li>`)}
    ${rest > 0 && html`<li class="dim">and ${int(rest)} more</li>`}
  </ul>`;
}

// One of several, as buttons in a row: options [[value, label], …].
export function Choice({ label, value, options, onChange }) {
  return html`<div class="choice" role="group" aria-label=${label}>
    ${options.map(([key, words]) => html`<button key=${key} type="button" aria-pressed=${String(key === value)} onClick=${() => onChange(key)}>${words}</button>`)}
  </div>`;
}

export const Badge = ({ tone = "", children, title }) => html`<span class="badge ${tone}" title=${title}>${children}</span>`;
