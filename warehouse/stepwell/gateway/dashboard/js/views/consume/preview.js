// What a trainer would get: the reader's plan with these settings, and its first optimizer step. The settings are the address.
import { cls, html } from "../../lib/html.js";
import { Asked } from "../../lib/panel.js";
import { post, useApi } from "../../lib/api.js";
import { bodyOf } from "../../lib/reader.js";
import { Form } from "./preview_form.js";
import { Plan } from "./plan.js";

export function Preview({ params, go }) {
  const names = useApi("/datasets");
  const body = bodyOf(params);
  const asked = useApi(body ? "/batches/preview" : null, body ?? {}, { load: post });
  return html`<${Form} params=${params} go=${go} datasets=${names.data?.items ?? []} busy=${Boolean(body) && asked.loading} />
    ${body ? html`<div class=${cls("planned", asked.loading && asked.data && "stale")}><${Asked} of=${asked}>${(plan) => html`<${Plan} plan=${plan} params=${params} />`}<//></div>`
      : html`<p class="empty">Choose a dataset, or write a condition: here is shown what a trainer with these settings would get, and what would be left out.</p>`}`;
}
