// A version as a file. Where the browser can, a large one goes straight to the disk.
import { html, useState } from "../../lib/html.js";
import { at, fetchRaw } from "../../lib/api.js";
import { bytes } from "../../lib/format.js";
import { complain, toast } from "../../lib/toast.js";

const FORMS = [["parquet", "Parquet"], ["jsonl", "JSON lines"], ["arrow", "Arrow"]];
const LARGE = 20_000; // steps; a smaller one is put together in memory

export function Download({ label, steps }) {
  const [got, setGot] = useState(null);
  const save = async (form) => {
    try {
      const target = steps > LARGE && self.showSaveFilePicker ? await showSaveFilePicker({ suggestedName: `${label}.${form}` }) : null;
      setGot(0);
      const answer = await fetchRaw("GET", at`/datasets/${label}/download`, { params: { to: form } });
      const counted = answer.body.pipeThrough(counter(setGot));
      if (target) await counted.pipeTo(await target.createWritable());
      else offer(await new Response(counted).blob(), named(answer) ?? `${label}.${form}`);
      toast("Downloaded");
    } catch (error) {
      if (error.name !== "AbortError") complain(error);
    } finally {
      setGot(null);
    }
  };
  return html`<div class="download" role="group" aria-label="Download">
    ${FORMS.map(([form, words]) => html`<button key=${form} type="button" class="small" disabled=${got !== null} onClick=${() => save(form)}>Download ${words}</button>`)}
    ${got !== null && html`<span class="dim" role="status">${bytes(got)}…</span>`}
  </div>`;
}

const named = (answer) => /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "")?.[1];

function counter(say) {
  let sum = 0;
  return new TransformStream({ transform: (piece, out) => (say((sum += piece.byteLength)), out.enqueue(piece)) });
}

function offer(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
