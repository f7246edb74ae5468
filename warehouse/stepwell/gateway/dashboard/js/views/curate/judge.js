// Saying something of steps, and taking it back. What is said is an event: it is never erased, only undone.
import { at, post } from "../../lib/api.js";
import { complain, toast } from "../../lib/toast.js";
import { author } from "./author.js";
import { many } from "../../lib/format.js";

export const MOST = 50_000; // steps of one judgement, by the gateway
const PATIENCE = 5; // seconds for what was said to be committed, before the list is shown as it is

// Say one thing of one step. {id, step_id, text} of what was said, or null where it was refused (which is shown).
export async function say(step_id, said, text) {
  const feedback = { feedback_id: crypto.randomUUID(), step_id, author: author(), ...said };
  return (await sent(feedback)) ? { id: feedback.feedback_id, step_id, text } : null;
}

export async function takeBack({ id, step_id }) {
  return sent({ step_id, author: author(), undo: id });
}

// Take back the last answer of what waits for judgements (see useWaiting). `words` makes what is told of its text.
export async function undoLast(list, busy, setBusy, words = (text) => text) {
  const last = list.done.at(-1);
  if (!last || busy) return;
  setBusy(true);
  const good = await takeBack(last);
  setBusy(false);
  if (!good) return;
  toast(`Undone: ${words(last.text)}`);
  list.back(last);
}

async function sent(feedback) {
  try {
    await post("/feedback", [feedback]);
    return true;
  } catch (error) {
    complain(refused(error));
    return false;
  }
}

// Say one thing of many steps: {ids} or {filter, expect}, where `expect` is how many the reader saw; with another number none is judged.
// Calls `after` when it can be read, and again after an undo.
export async function sayOfMany(which, said, words, after) {
  try {
    const { undo, steps: count } = await post("/feedback/bulk", { limit: MOST, ...which, feedback: { author: author(), ...said } });
    toast(`${words}: ${steps(count)}`, { undo: undo && (() => undoMany(undo, words, after)) });
    settled().then(after);
    return true;
  } catch (error) {
    complain(refused(error));
    return false;
  }
}

export async function undoMany(id, words, after) {
  try {
    const { steps: count } = await post(at`/feedback/undo/${id}`, { author: author() });
    toast(`Undone: ${words.toLowerCase()} (${steps(count)})`);
    settled().then(after);
  } catch (error) {
    complain(refused(error));
  }
}

// Until what was accepted can be read; where nothing ingests, for a moment only.
export const settled = () => post("/flush", { timeout: PATIENCE }).catch(() => {});

export const steps = (count) => many(count, "step");

// A refused record's own words say more than "every record was refused".
function refused(error) {
  const item = error.items?.find?.((one) => one.status === "refused" || one.message);
  return item ? { message: `${item.field ? `${item.field}: ` : ""}${item.message}` } : error;
}
