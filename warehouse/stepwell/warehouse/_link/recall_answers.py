"""Answers that calls continue by the provider's id, where they are in the warehouse and not in memory."""

from __future__ import annotations

import logging
from collections.abc import Iterable

import orjson
import pyarrow.compute as pc

from stepwell.warehouse._link.continues import INCOMPLETE, Answer
from stepwell.warehouse._link.recall import FromTables
from stepwell.warehouse._link.trajectories import Said
from stepwell.warehouse._parse.draft import Draft
from stepwell.warehouse._parse.records import Parsed
from stepwell.warehouse._parse.warmed import CONTEXT, warmed_from
from stepwell.warehouse._restore.read import by_id, holds_data, matching
from stepwell.warehouse._tables.json_text import kept
from stepwell.warehouse._tables.order import in_order

_log = logging.getLogger(__name__)

_CHAIN = 64
"""Warm-ups behind each other that are looked up."""


class RecallAnswers(FromTables):
    """Finds what `continues` names: answers, warm-ups, and the last step of a conversation object."""

    def names(self, parsed: Parsed) -> None:
        """Learn what the round's steps continue, and the warm-ups of the round itself."""
        answers = self._linker.answers
        if self._linker.fresh:
            self._waiting()
        for warmed in parsed.warmed:
            answers.warm(warmed)
        said = {draft.step.continues for draft in parsed.drafts} | {warmed.continues for warmed in parsed.warmed}
        looked: set[str] = set()
        for _ in range(_CHAIN):
            names = {name for one in said for name in answers.names(one)}
            unknown = sorted(name for name in names if name not in answers and name not in looked)
            if not unknown:
                return
            looked.update(unknown)
            self._look_up(unknown)

    def conversations(self, drafts: Iterable[Draft]) -> None:
        """Read the whole conversations that memory knows the step of and has let go of; trajectories are in memory by now."""
        answers = self._linker.answers
        wanted = {
            answer.step_id
            for draft in drafts
            for answer in answers.steps(draft.step.continues)
            if answer.trajectory_id in self._memories
            and self._memories.get(answer.trajectory_id).conversation(answer.step_id) is None
        }
        if not wanted or not holds_data(self._steps.dataset):
            return
        columns, broken = ["step_id", "messages", "response"], dict[str, str]()
        whole = by_id(self._steps.dataset, sorted(wanted), columns, payloads=self._payloads, broken=broken)
        for reason in broken.values():  # the step that continues it is then one whose beginning is not recorded
            _log.warning("a conversation cannot be gone on with: %s", reason)
        for row in whole.to_pylist():
            said = [kept(message) for message in orjson.loads(row["messages"] or "[]")]
            said += [row["response"].encode()] if row["response"] else []
            answers.pinned[row["step_id"]] = Said(tuple(said))

    def _look_up(self, names: list[str]) -> None:
        answers = self._linker.answers
        ids = [name.partition(":")[2] for name in names if name.startswith("response:")]
        if ids and holds_data(self._steps.dataset):
            found = matching(self._steps.dataset, "response_id", ids, ["response_id", "step_id", "trajectory_id"])
            for row in found.to_pylist():
                if not self._forgotten(row["step_id"]):
                    answers.learn(f"response:{row['response_id']}", Answer(row["step_id"], row["trajectory_id"]))
        if ids and holds_data(self._events.dataset):
            found = matching(self._events.dataset, "target_id", ids, ["target_id", "kind", "payload"])
            for row in found.filter(pc.field("kind") == CONTEXT).to_pylist():
                answers.warm(warmed_from(row["target_id"], row["payload"]))
        if (talks := [name for name in names if name.startswith("conversation:")]) and holds_data(self._steps.dataset):
            columns = ["continues", "step_id", "trajectory_id", "producer", "sequence"]
            found = matching(self._steps.dataset, "continues", talks, columns)
            for row in in_order(found, "step_id", self._commits.dataset).to_pylist():  # the last one stands
                if not self._forgotten(row["step_id"]):
                    answers.learn(row["continues"], Answer(row["step_id"], row["trajectory_id"]))

    def _waiting(self) -> None:
        """The steps whose parent has not arrived yet."""
        condition = f"continues LIKE 'response:%' AND parent_id IS NULL AND untrainable_reason LIKE '{INCOMPLETE}%'"
        if not holds_data(self._steps.dataset):
            return
        rows = self._steps.dataset.to_table(columns=["step_id", "continues"], filter=condition).to_pylist()
        if not rows:
            return
        events = matching(self._events.dataset, "target_id", [row["step_id"] for row in rows], ["target_id", "kind"])
        linked = set(events.filter(pc.field("kind") == "parent.late")["target_id"].to_pylist())
        for row in rows:
            if row["step_id"] not in linked:
                self._linker.answers.wait(row["continues"], row["step_id"])
