// What can be said of a step: the fields that ask for it, the feedback they make, and that in words.
import { html } from "../../lib/html.js";
import { inert, line, signed } from "../../lib/format.js";

export const SCALE = 5;

const comment = ({ comment: why }) => (why?.trim() ? { comment: why.trim() } : {});
const known = (rows) => [...new Set(rows.flatMap((row) => row.labels ?? []))].sort().slice(0, 100);
const Word = ({ rows, label }) => html`<input name="word" aria-label=${label} placeholder=${label} required maxlength="256" list="known-labels" autocomplete="off" />
  <datalist id="known-labels">${known(rows).map((one) => html`<option key=${one} value=${one} />`)}</datalist>`;

export const KINDS = {
  label: {
    title: "Label",
    verb: "Label",
    fields: (rows) => html`<${Word} rows=${rows} label="label" />`,
    said: (form) => ({ label: form.word.trim(), ...comment(form) }),
    words: (said) => `Labelled ${quoted(said.label)}`,
  },
  tag: {
    title: "Tag (beside others)",
    verb: "Tag",
    fields: (rows) => html`<${Word} rows=${rows} label="tag" />`,
    said: (form) => ({ label: form.word.trim(), name: `tag:${form.word.trim()}`.slice(0, 256), ...comment(form) }),
    words: (said) => `Tagged ${quoted(said.label)}`,
  },
  rating: {
    title: "Rate",
    verb: "Rate",
    fields: () => html`<select name="rating" aria-label="rating">${Array.from({ length: SCALE }, (_, i) => html`<option key=${i} value=${SCALE - i}>${SCALE - i} of ${SCALE}</option>`)}</select>`,
    said: (form) => ({ rating: Number(form.rating), scale: SCALE, ...comment(form) }),
    words: (said) => `Rated ${said.rating} of ${said.scale}`,
  },
  reward: {
    title: "Reward",
    verb: "Reward",
    fields: () => html`<input name="reward" type="number" step="any" required aria-label="reward" placeholder="reward" class="short" />
      <input name="name" aria-label="name of the reward" placeholder="name (reward)" maxlength="256" size="12" />`,
    said: (form) => ({ reward: Number(form.reward), ...(form.name?.trim() ? { name: form.name.trim() } : {}), ...comment(form) }),
    words: (said) => `Reward ${signed(said.reward)}`,
  },
  note: {
    title: "Note",
    verb: "Note",
    fields: () => html`<input name="comment" required aria-label="note" placeholder="note" maxlength="10000" class="grow" />`,
    said: (form) => ({ name: "note", ...comment(form) }),
    words: () => "Noted",
  },
  untrainable: {
    title: "Not for training",
    verb: "Keep out of training",
    fields: () => null,
    said: (form) => ({ trainable: false, ...comment(form) }),
    words: () => "Kept out of training",
  },
  trainable: {
    title: "For training again",
    verb: "Let it train",
    fields: () => html`<span class="dim">takes back only what you said against it</span>`,
    said: (form) => ({ trainable: true, ...comment(form) }),
    words: () => "Let train again",
  },
};

// A feedback that counts, as the interface tells it, in words.
export function inWords(feedback) {
  const name = feedback.name && feedback.name !== feedback.kind ? ` ${line(feedback.name, 60)}` : "";
  switch (feedback.kind) {
    case "label":
      return `label${feedback.name?.startsWith("tag:") ? "" : name}: ${line(feedback.text, 100)}`;
    case "rating":
      return `rating${name}: ${signed(feedback.value)} of ${feedback.payload?.scale ?? "?"}`;
    case "reward":
    case "score":
      return `${feedback.kind}${name}: ${signed(feedback.value)}`;
    case "preference":
      return `better${name} than ${line(feedback.text, 100)}`;
    case "trainable":
      return feedback.value ? "for training" : "not for training";
    case "correction":
      return `a better answer${name}`;
    default:
      return `${line(feedback.kind, 40)}${name}${feedback.text ? `: ${line(feedback.text, 200)}` : ""}`;
  }
}

const quoted = (text) => `“${inert(text).slice(0, 60)}”`;
