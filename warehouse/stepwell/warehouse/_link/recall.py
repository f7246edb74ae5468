"""Trajectories that are in the warehouse and not in memory: after a restart, or when they were forgotten for room."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any

from stepwell.warehouse._encode.delta import Base
from stepwell.warehouse._link.attempts import Attempt
from stepwell.warehouse._link.continues import INCOMPLETE, Answer, is_remembered
from stepwell.warehouse._link.link import INFERRED, Linker
from stepwell.warehouse._link.openings import openings
from stepwell.warehouse._link.recall_bases import BASE_COLUMNS, bases_of
from stepwell.warehouse._link.trajectories import MAX_BASES, Memories, Place
from stepwell.warehouse._parse.draft import Draft, is_failed
from stepwell.warehouse._parse.rest import Rest
from stepwell.warehouse._restore.payloads import Payloads
from stepwell.warehouse._restore.read import holds_data, matching, stored_of
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.order import in_order

_KEPT = [
    *("step_id", "trajectory_id", "turn", "conversation_key", "parent_id", "response", "untrainable_reason"),
    *("call_id", "prompt_key", "status", "finish_reason", "producer", "sequence"),
    *("dialect", "response_id", "continues", "model_asked"),
]
_COLUMNS = (*_KEPT, *BASE_COLUMNS)
_ANSWER = b'{"role":"assistant"'
"""How the JSON of an answer begins: canonical messages say first who speaks."""
_AT_ONCE = 1 << 20
"""Steps of trajectories that are read together, those of each multiplied by themselves."""
_BASES = 4096
"""Whole prompts that one flush may bring back, as ids: of many trajectories a few recent steps each, of the others the texts only."""


class FromTables:
    """What brings a linker's memory up to the tables has them, and it."""

    def __init__(
        self,
        tables: Mapping[str, LedgerTable],
        linker: Linker,
        memories: Memories,
        forgotten: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`forgotten` says of a step's id whether it is about to be deleted: nothing is to go on from it."""
        self._forgotten = forgotten
        self._steps = tables["steps"]
        self._events = tables["events"]
        self._commits = tables["commits"]
        self._payloads = Payloads(lambda: tables["payloads"].dataset)
        self._linker = linker
        self._memories = memories


class Recall(FromTables):
    """Brings a linker's memory up to what the tables know."""

    def conversations(self, drafts: Iterable[Draft]) -> None:
        """Where anonymous drafts continue or repeat what memory does not have, find whose it is."""
        keys: list[str] = []
        asked: list[str] = []
        for draft in drafts:
            if draft.step.trajectory_id is None and draft.step.continues is None:
                keys.extend(takewhile(lambda key: not self._linker.knows(key), _answers(draft)))
                key = draft.prompt_key
                # Only the first round can meet the second attempt of a call that memory does not have, unless it says so.
                if key is not None and not self._linker.knows(key) and (self._linker.fresh or draft.retry):
                    asked.append(key)
        self._linker.fresh = False
        for column, wanted in (("conversation_key", keys), ("prompt_key", asked)):
            if wanted and holds_data(self._steps.dataset):
                for row in matching(self._steps.dataset, column, wanted, [column, "trajectory_id"]).to_pylist():
                    if row["trajectory_id"].startswith(INFERRED):
                        self._linker.learn(row[column], row["trajectory_id"])

    def trajectories(self, ids: Iterable[str]) -> None:
        """Remember these trajectories as if their steps had just arrived."""
        unknown = sorted(id_ for id_ in ids if id_ not in self._memories)
        if not unknown:
            return
        for id_, facts in openings(self._events.dataset, unknown, self._commits.dataset).items():
            self._memories.get(id_).facts = facts
        if holds_data(self._steps.dataset):
            recent = min(max(_BASES // len(unknown), 1), MAX_BASES)
            for some in self._portions(unknown):
                self._steps_of(some, recent)
        for id_ in unknown:
            self._memories.grew(id_, self._memories.get(id_).size)

    def _portions(self, ids: Sequence[str]) -> Iterator[list[str]]:
        """A few trajectories at a time: a step's conversation is a list of all that was said before, so they grow with their square."""
        found = matching(self._steps.dataset, "trajectory_id", ids, ["trajectory_id"])
        steps, portion, size = Counter(found["trajectory_id"].to_pylist()), list[str](), 0
        for id_, count in steps.items():
            if portion and size + count * count > _AT_ONCE:
                yield portion
                portion, size = [], 0
            portion.append(id_)
            size += count * count
        if portion:
            yield portion

    def _steps_of(self, ids: list[str], recent: int) -> None:
        stored = in_order(stored_of(self._steps.dataset, ids, _COLUMNS), "step_id", self._commits.dataset)
        keys = {id_: Rest() for id_ in ids}
        for row, base in zip(stored.select(_KEPT).to_pylist(), bases_of(stored, self._payloads, recent), strict=True):
            if not self._forgotten(row["step_id"]):
                self._remember(row, base, keys[row["trajectory_id"]])

    def _remember(self, row: dict[str, Any], base: Base | None, rest: Rest) -> None:
        memory, step_id = self._memories.get(row["trajectory_id"]), row["step_id"]
        said = is_remembered(row["dialect"], row["response_id"], row["continues"])
        incomplete = (row["untrainable_reason"] or "").startswith(INCOMPLETE)
        continued = row["conversation_key"] is not None and not incomplete
        key = rest.key(base.conversation, row["model_asked"]) if continued and base is not None else None
        names = (row["conversation_key"], key)
        memory.remember(Place(step_id, row["turn"] or 0), names, base, said=said)
        if said and row["response_id"] is not None:
            self._linker.answers.learn(f"response:{row['response_id']}", Answer(step_id, row["trajectory_id"]))
        if incomplete:
            memory.incomplete.add(step_id)
        memory.calls.continue_from(row["parent_id"], step_id)
        if row["prompt_key"] is not None:
            failed = is_failed(row["status"], row["finish_reason"])
            attempt = Attempt(step_id.rpartition(".")[0], row["producer"], row["sequence"], 0, failed)
            memory.calls.recall(row["prompt_key"], row["call_id"], attempt, step_id)


def _answers(draft: Draft) -> Iterator[str]:
    """The keys of the conversations that the prompt goes on from, the longest first: those that end with an answer."""
    said = zip(reversed(draft.prompt_keys), reversed(draft.messages), strict=True)
    return (key for key, message in said if message.startswith(_ANSWER))
