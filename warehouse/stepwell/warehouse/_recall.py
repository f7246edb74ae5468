"""Trajectories that are in the warehouse and not in memory: after a restart, or when they were forgotten for room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import orjson
import pyarrow as pa

from stepwell.warehouse._arrow import row_views
from stepwell.warehouse._delta import Base
from stepwell.warehouse._draft import Draft
from stepwell.warehouse._ledger import LedgerTable
from stepwell.warehouse._link import INFERRED, Linker
from stepwell.warehouse._openings import openings
from stepwell.warehouse._read import holds_data, matching, stored_of
from stepwell.warehouse._trajectories import Memories, Memory, Place
from stepwell.warehouse._whole import restore

_COLUMNS = ("step_id", "trajectory_id", "turn", "conversation_key", "response_ids", "response", "commit", "sequence")


class Recall:
    """Brings a linker's memory up to what the tables know."""

    def __init__(self, tables: Mapping[str, LedgerTable], linker: Linker, memories: Memories) -> None:
        self._steps = tables["steps"]
        self._events = tables["events"]
        self._linker = linker
        self._memories = memories

    def conversations(self, drafts: Iterable[Draft]) -> None:
        """Where anonymous drafts continue conversations that memory does not have, find whose they are."""
        keys: list[str] = []
        for draft in drafts:
            if draft.step.trajectory_id is None and len(draft.prompt_keys) > 1:
                keys.extend(key for key in draft.prompt_keys if not self._linker.knows(key))
        if not keys or not holds_data(self._steps.dataset):
            return
        found = matching(self._steps.dataset, "conversation_key", keys, ["conversation_key", "trajectory_id"])
        for row in found.to_pylist():
            if row["trajectory_id"].startswith(INFERRED):
                self._linker.learn(row["conversation_key"], row["trajectory_id"])

    def trajectories(self, ids: Iterable[str]) -> None:
        """Remember these trajectories as if their steps had just arrived."""
        unknown = sorted(id_ for id_ in ids if id_ not in self._memories)
        if not unknown:
            return
        for id_, facts in openings(self._events.dataset, unknown).items():
            self._memories.get(id_).facts = facts
        if holds_data(self._steps.dataset):
            self._steps_of(unknown)

    def _steps_of(self, ids: list[str]) -> None:
        stored = stored_of(self._steps.dataset, ids, _COLUMNS)
        whole = restore(stored).append_column("base_depth", stored["base_depth"])
        order = sorted(
            range(whole.num_rows),
            key=list(zip(*(whole[n].to_pylist() for n in ("commit", "sequence")), strict=True)).__getitem__,
        )
        bases = _bases(whole)
        rows = whole.select(["step_id", "trajectory_id", "turn", "conversation_key"]).to_pylist()
        for place in order:
            row = rows[place]
            memory: Memory = self._memories.get(row["trajectory_id"])
            memory.remember(Place(row["step_id"], row["turn"] or 0), row["conversation_key"], bases[place])
        for id_ in ids:
            self._memories.get(id_)
            self._memories.changed(id_)


def _bases(whole: pa.Table) -> list[Base]:
    prompts, responses = row_views(whole["prompt_ids"]), row_views(whole["response_ids"])
    texts = zip(
        *(whole[name].to_pylist() for name in ("step_id", "base_depth", "messages", "response", "tools")), strict=True
    )
    bases = []
    for prompt, response, (step_id, depth, messages, answer, tools) in zip(prompts, responses, texts, strict=True):
        tokens = None if prompt is None or response is None else np.concatenate([prompt, response])
        said = [orjson.dumps(message) for message in orjson.loads(messages)] if messages else []
        conversation = (*said, answer.encode()) if answer else tuple(said)
        bases.append(Base(step_id, depth, tokens, conversation, (tools or "null").encode()))
    return bases
