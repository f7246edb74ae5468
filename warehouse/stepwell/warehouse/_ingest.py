"""Ingest: spools in, committed rows out, each record exactly once.

A round reads what is new in every spool, parses and links it, and commits it table by table: exchanges, steps, events, and last one row of
`commits`, whose ledger is the truth about how far everybody has come. A round that dies in the middle is done again from there; each
table's own ledger says which of its records it already has.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import orjson

from stepwell.errors import SpoolError, StoreError
from stepwell.spool import Record, SpoolReader, adopt, write_cursor
from stepwell.warehouse._draft import Draft
from stepwell.warehouse._found import finding_row
from stepwell.warehouse._inherit import parents_first
from stepwell.warehouse._ledger import Marks
from stepwell.warehouse._link import Linker
from stepwell.warehouse._parse import Parsed, parse_record
from stepwell.warehouse._read import existing, matching
from stepwell.warehouse._recall import Recall
from stepwell.warehouse._recall_answers import RecallAnswers
from stepwell.warehouse._redact import Redactor
from stepwell.warehouse._rows import Row, rows_of, step_rows
from stepwell.warehouse._schema import COMMITS, EVENTS, EXCHANGES
from stepwell.warehouse._trajectories import Facts, Memories
from stepwell.warehouse._warehouse import Warehouse

_log = logging.getLogger(__name__)

ROUND_RECORDS = 2000
ROUND_BYTES = 64 << 20
MEMORY_BYTES = 512 << 20
_IMPORT = "import-"
"""How the producer of `stepwell import` is called: what it sends is named by its content, and may come again."""


class Ingest:
    """Moves records from a folder of spools into a warehouse. One per warehouse at a time; one thread."""

    def __init__(self, warehouse: Warehouse, folder: Path, redactor: Redactor | None = None) -> None:
        self._redactor = redactor or Redactor()
        self._warehouse = warehouse
        self._folder = folder
        self._memories = Memories(MEMORY_BYTES)
        self._linker = Linker(self._memories)
        self._recall = Recall(warehouse.tables, self._linker, self._memories)
        self._recall_answers = RecallAnswers(warehouse.tables, self._linker, self._memories)
        self._marks: Marks = warehouse.marks()
        self._commit = max(_commits(warehouse), default=0)
        self._round = 0

    def run_once(self) -> int:
        """One round; how many records it took from the spools.

        Raises:
            StoreError: the round did not commit, or it is not known whether it did. Nothing is lost: the next round looks again.
        """
        parsed, marks, count = self._read()
        if not count:
            return 0
        try:
            self._write(parsed, marks)
        except OSError as error:  # reading back what is stored: Lance's errors of the store
            self._forget()
            raise StoreError(f"the store of {self._warehouse.uri} failed: {error}") from error
        except BaseException:
            self._forget()
            raise
        self._marks = marks
        self._memories.shrink()
        self._linker.answers.shrink()
        try:
            write_cursor(self._folder, marks)
        except OSError as error:  # a hint for producers: without it they keep more than they need
            _log.warning("cannot say in %s what may be dropped from the spools: %s", self._folder, error)
        return count

    def _forget(self) -> None:
        """After a failed commit what was remembered may be ahead of what is stored: start from the stored state."""
        self._linker.forget()
        with suppress(StoreError):  # still in trouble: the next round conflicts, or fails, and looks again
            self._warehouse.refresh()
            self._marks = self._warehouse.marks()
            self._commit = max(_commits(self._warehouse), default=0)

    def _read(self) -> tuple[Parsed, Marks, int]:
        """One round's worth of all spools. Each round begins with another one: a busy producer does not starve the rest."""
        parsed, marks, count, size = Parsed(), dict(self._marks), 0, 0
        paths = sorted(self._folder.glob("*.db"))
        self._round += 1
        for place in range(len(paths)):
            if count >= ROUND_RECORDS or size >= ROUND_BYTES:
                break
            try:
                with SpoolReader(paths[(self._round + place) % len(paths)]) as reader:
                    records = self._records(reader, ROUND_RECORDS - count, ROUND_BYTES - size)
                    meant = _parse_all(records, reader, self._redactor)
            except SpoolError as error:  # that spool's records come later; nothing of it was taken
                _log.warning("%s", error)
                continue
            if records:
                parsed.add(meant)
                marks[reader.producer] = records[-1].seq
                count += len(records)
                size += sum(len(record.head) + len(record.body) for record in records)
        return parsed, marks, count

    def _records(self, reader: SpoolReader, limit: int, max_bytes: int) -> list[Record]:
        if not reader.alive() and reader.orphans():
            adopt(reader.path)  # its calls will get no answer any more: say so
        return reader.read(self._marks.get(reader.producer, 0), limit=limit, max_bytes=max_bytes)

    def _write(self, parsed: Parsed, marks: Marks) -> None:
        commit = self._commit + 1
        tables = self._warehouse.tables
        self._remember(parsed)
        self._put("exchanges", parsed.quarantined, marks, commit)
        found = self._left_over(parsed.drafts)
        drafts = self._new_steps(parsed.drafts)
        if drafts:
            linked = [self._linker.place(draft) for draft in parents_first(drafts)]
            tables["steps"].commit(step_rows(linked, commit), marks)
            found += [finding_row(finding, item.draft) for item in linked for finding in item.findings]
        self._put("events", [*parsed.events, *found], marks, commit)
        row = {"commit_id": str(commit), "marks": orjson.dumps(marks).decode(), "created_at": datetime.now(UTC)}
        tables["commits"].commit(rows_of(COMMITS, [row], commit), marks)
        self._commit = commit

    def _put(self, name: str, rows: Sequence[Row], marks: Marks, commit: int) -> None:
        table, spec = self._warehouse.tables[name], {"exchanges": EXCHANGES, "events": EVENTS}[name]
        if not rows:
            return
        done = table.marks()
        fresh = [row for row in rows if row["sequence"] > done.get(row["producer"], 0)]
        known = existing(table.dataset, spec.key, [row[spec.key] for row in fresh])
        unique = {
            row[spec.key]: row for row in reversed(fresh) if row[spec.key] not in known
        }  # the first of its id stands
        if unique:
            table.commit(rows_of(spec, list(reversed(unique.values())), commit), marks)

    def _new_steps(self, drafts: Iterable[Draft]) -> list[Draft]:
        """Without those an interrupted round committed already, and without ids that are there: a step is submitted once."""
        table = self._warehouse.tables["steps"]
        done = table.marks()
        fresh = [draft for draft in drafts if draft.sequence > done.get(draft.producer, 0)]
        again = [draft.step.step_id for draft in fresh if draft.submitted or draft.producer.startswith(_IMPORT)]
        known = existing(table.dataset, "step_id", again)
        unique = {draft.step.step_id: draft for draft in reversed(fresh) if draft.step.step_id not in known}
        return list(reversed(unique.values()))

    def _left_over(self, drafts: Iterable[Draft]) -> list[Row]:
        """What the steps that an interrupted round has committed tell about others: it did not come to writing that."""
        table = self._warehouse.tables["steps"]
        done = table.marks()
        stored = {draft.step.step_id: draft for draft in drafts if draft.sequence <= done.get(draft.producer, 0)}
        if not stored:
            return []
        rows = matching(table.dataset, "step_id", list(stored), ["step_id", "trajectory_id", "parent_id"]).to_pylist()
        self._recall.trajectories({row["trajectory_id"] for row in rows})
        found = {
            row["step_id"]: self._linker.again(stored[row["step_id"]], row["trajectory_id"], row["parent_id"])
            for row in rows
        }
        return [finding_row(finding, stored[id_]) for id_, findings in found.items() for finding in findings]

    def _remember(self, parsed: Parsed) -> None:
        """Everything that linking the round needs, from the warehouse where memory lacks it; then what the round itself says."""
        self._recall_answers.names(parsed)
        self._recall.conversations(parsed.drafts)
        ids = {id_ for draft in parsed.drafts for id_ in self._linker.candidates(draft)}
        self._recall.trajectories(ids | {opened.trajectory_id for opened in parsed.opened})
        self._recall_answers.conversations(parsed.drafts)
        for opened in parsed.opened:
            facts = Facts(opened.prompt_id, opened.group_id, opened.split, opened.policy_version)
            self._memories.get(opened.trajectory_id).facts = facts


def _parse_all(records: Sequence[Record], reader: SpoolReader, redactor: Redactor) -> Parsed:
    parsed, here = Parsed(), {record.id: record for record in records}
    for record in records:
        parse_record(record, reader.producer, lambda id_: here.get(id_) or reader.get(id_), parsed, redactor)
    return parsed


def _commits(warehouse: Warehouse) -> list[int]:
    numbers: list[int] = (
        warehouse.tables["commits"].dataset.to_table(columns=["commit"], filter="ledger IS NULL")["commit"].to_pylist()
    )
    return numbers
