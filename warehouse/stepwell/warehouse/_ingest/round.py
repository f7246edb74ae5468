"""One flush's worth of parsed records to rows: linked to what is known, without what is known already."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from stepwell.warehouse._encode.payloads import PayloadMemory
from stepwell.warehouse._ingest.raw_rows import raw_rows
from stepwell.warehouse._ingest.rows import payload_rows, rows_of, step_rows
from stepwell.warehouse._ingest.tombstones import Tombstones
from stepwell.warehouse._link.found import finding_row
from stepwell.warehouse._link.inherit import parents_first
from stepwell.warehouse._link.link import Linker
from stepwell.warehouse._link.recall import Recall
from stepwell.warehouse._link.recall_answers import RecallAnswers
from stepwell.warehouse._link.trajectories import Facts, Memories
from stepwell.warehouse._parse.draft import Draft
from stepwell.warehouse._parse.events import Row
from stepwell.warehouse._parse.records import Parsed
from stepwell.warehouse._restore.read import holds_data, matching
from stepwell.warehouse._store.flush import Ranges
from stepwell.warehouse._tables.ledger import refresh_all
from stepwell.warehouse._tables.schema import EVENTS, EXCHANGES, FACTS, FORGOTTEN, TableSpec
from stepwell.warehouse._warehouse import Warehouse

MEMORY_BYTES = 384 << 20
_IMPORT = "import-"
"""How the producer of `stepwell import` is called: what it sends is named by its content, and may come again."""


@dataclass(slots=True)
class Rows:
    """What a flush writes, by table; tables without rows are left out."""

    tables: dict[str, pa.Table] = field(default_factory=dict)
    submitted: dict[str, list[str]] = field(default_factory=dict)
    """Ids that somebody else may have submitted as well."""
    checked: dict[str, int] = field(default_factory=dict)
    """The version of the table in which those ids were not."""


class Rounds:
    """Makes rows, flush after flush; remembers the trajectories between them."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._memories = Memories(MEMORY_BYTES)
        self._linker = Linker(self._memories)
        self._payloads = PayloadMemory()
        self._tombstones = Tombstones(warehouse.tables[FORGOTTEN.name])
        known = (warehouse.tables, self._linker, self._memories, self._is_forgotten)
        self._recall, self._recall_answers = Recall(*known), RecallAnswers(*known)
        self._waiting: dict[str, dict[str, int]] = {}
        """By table, the ids of flushes that are not known to be committed, with the flush's number."""

    @property
    def crowded(self) -> bool:
        """Whether memory is to shrink before it takes in more."""
        return self._memories.crowded or self._linker.crowded

    def shrink(self) -> None:
        """Forget the oldest of what is too much. Only when all that was made is committed: it is read from the tables again."""
        self._memories.shrink()
        self._linker.shrink()

    def forget(self) -> None:
        """Start again from what is stored."""
        self._linker.forget()
        self._payloads.forget()
        self._waiting.clear()

    def settled(self, number: int) -> None:
        """Every flush up to this one is in the tables, once they are looked at again."""
        for ids in self._waiting.values():
            for id_ in [id_ for id_, flush in ids.items() if flush <= number]:
                del ids[id_]

    def look(self) -> bool:
        """Look at the tables as they are; whether something was forgotten since, and with it all that memory would go on from."""
        refresh_all(self._warehouse.tables[spec.name] for spec in (*FACTS, FORGOTTEN))
        if not self._tombstones.follow():
            return False
        self._linker.forget()
        self._payloads.forget()
        return True

    def rows(self, parsed: Parsed, ranges: Ranges, number: int) -> Rows:
        """The rows of flush `number`, which holds the records of `ranges`, over the tables as `look` has seen them."""
        made = Rows()
        made.checked[FORGOTTEN.name] = self._tombstones.number
        self._tombstones.strip(parsed)
        self._remember(parsed)
        drafts = self._new_steps(parsed.drafts, ranges, made)
        linked = self._tombstones.without(self._linker.place(draft) for draft in parents_first(drafts))
        if linked:
            made.tables["steps"] = step_rows(linked)
            if (payloads := payload_rows(linked, self._payloads)).num_rows:
                made.tables["payloads"] = payloads
        self._put(made, EXCHANGES, [*parsed.quarantined, *raw_rows(parsed, linked)], ranges)
        found = [finding_row(finding, item.draft) for item in linked for finding in item.findings]
        self._put(made, EVENTS, [*parsed.events, *found], ranges)
        for name, ids in made.submitted.items():
            self._waiting.setdefault(name, {}).update(dict.fromkeys(ids, number))
        return made

    def _is_forgotten(self, step_id: str) -> bool:
        return self._tombstones.has("step", step_id)

    def _put(self, made: Rows, spec: TableSpec, rows: Sequence[Row], ranges: Ranges) -> None:
        known = self._known(spec, [row[spec.key] for row in rows], ranges)
        unique = {
            row[spec.key]: row for row in reversed(rows) if row[spec.key] not in known
        }  # the first of its id stands
        if unique:
            made.tables[spec.name] = rows_of(spec, list(reversed(unique.values())))
            made.submitted[spec.name] = list(unique)
            made.checked[spec.name] = self._warehouse.tables[spec.name].dataset.version

    def _new_steps(self, drafts: Iterable[Draft], ranges: Ranges, made: Rows) -> list[Draft]:
        """Without ids that are there: a step is submitted once."""
        table = self._warehouse.tables["steps"]
        given = [one.step.step_id for one in drafts if one.submitted or one.again or one.producer.startswith(_IMPORT)]
        known = self._known(table.spec, given, ranges)
        unique: dict[str, Draft] = {}
        for draft in drafts:  # the first of its id stands, and where it stood: what continues it comes later
            if draft.step.step_id not in known:
                unique.setdefault(draft.step.step_id, draft)
        if submitted := [id_ for id_ in given if id_ in unique]:
            made.submitted["steps"], made.checked["steps"] = submitted, table.dataset.version
        return list(unique.values())

    def _known(self, spec: TableSpec, ids: Sequence[str], ranges: Ranges) -> set[str]:
        """Which of these ids came with other records than those of `ranges`."""
        waiting = self._waiting.get(spec.name, {})
        known = {id_ for id_ in ids if id_ in waiting}
        dataset = self._warehouse.tables[spec.name].dataset
        if not ids or not holds_data(dataset):
            return known
        stored = matching(dataset, spec.key, ids, [spec.key, "producer", "sequence"])
        for id_, producer, sequence in zip(*(stored[name].to_pylist() for name in stored.column_names), strict=True):
            after, upto = ranges.get(producer, (0, 0))
            if not after < sequence <= upto:
                known.add(id_)
        return known

    def _remember(self, parsed: Parsed) -> None:
        """Everything that linking the round needs, from the warehouse where memory lacks it; then what the round itself says."""
        self._recall_answers.names(parsed)
        self._recall.conversations(parsed.drafts)
        ids = set[str]()
        for draft in parsed.drafts:
            step = draft.step
            if step.trajectory_id is not None and step.continues is None:  # as most say
                ids.add(step.trajectory_id)
            else:
                ids |= self._linker.candidates(draft)
        self._recall.trajectories(ids | {opened.trajectory_id for opened in parsed.opened})
        self._recall_answers.conversations(parsed.drafts)
        for opened in parsed.opened:
            facts = Facts(opened.prompt_id, opened.group_id, opened.split, opened.policy_version)
            self._memories.get(opened.trajectory_id).facts = facts
