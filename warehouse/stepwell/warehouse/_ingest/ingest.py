"""Ingest: the spools of one machine in, flushes out, each record exactly once.

A flush reads what is new in every spool, parses, links and encodes it, writes its rows as fragments and announces them. Whoever commits
for the warehouse, which may be this process, makes them visible (see `_commit/committer`). Which records a flush holds is fixed before any
of it is written: one that is lost or refused is written again from the spools.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import takewhile
from pathlib import Path

from stepwell.errors import SpoolError, StoreError
from stepwell.warehouse._commit.committer import Committer
from stepwell.warehouse._commit.halfway import ends_beyond, table_marks
from stepwell.warehouse._ingest.garbage import seldom_collected
from stepwell.warehouse._ingest.intake import Intake, Taken
from stepwell.warehouse._ingest.journal import Journal, Planned
from stepwell.warehouse._ingest.progress import Progress
from stepwell.warehouse._ingest.retiring import Retiring
from stepwell.warehouse._ingest.round import Rounds
from stepwell.warehouse._ingest.told import Told
from stepwell.warehouse._parse.raw import Raw
from stepwell.warehouse._redact.rules import Redactor
from stepwell.warehouse._store.flush import Flush, Inbox, held
from stepwell.warehouse._store.lease import Lease
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._tables.ledger import Marks
from stepwell.warehouse._tables.schema import FACTS, SCHEMA_VERSION
from stepwell.warehouse._warehouse import Warehouse

_log = logging.getLogger(__name__)

MAX_OUTSTANDING = 8
"""Flushes that are announced and not committed; beyond that the spools keep what comes."""
_NOT_FITTING = "others committed some of its records, or the warehouse is not the one that it was planned for"
_MISSED_AFTER = 5.0
"""Seconds after which an announcement that is not committed is looked for: it may have been refused."""


class Ingest:
    """Moves records from a folder of spools into a warehouse. One per folder at a time; one thread."""

    def __init__(
        self, warehouse: Warehouse, folder: Path, redactor: Redactor | None = None, raw: Raw | None = None
    ) -> None:
        """Go on where the journal of the folder says that this ingest came to. `raw`: which calls are kept as they were.

        Raises:
            StoreError: the store cannot be read.
        """
        objects = objects_at(warehouse.uri, warehouse.storage_options)
        self._warehouse = warehouse
        self._folder = folder
        self._intake = Intake(folder, redactor or Redactor(), raw)
        self._rounds = Rounds(warehouse)
        self._journal = Journal(folder, warehouse.uri)
        self._inbox = Inbox(objects)
        self.writer = self._journal.writer
        self._lease = Lease(objects, self.writer)
        self._committer = Committer(warehouse, self._inbox, self._lease.hold)
        self._announced = self._waiting()
        """Numbers of the outstanding flushes that are in the inbox, as far as is known."""
        self._astray = True
        """Memory is not what the tables together with what is outstanding would give."""
        self._committed: Marks = warehouse.marks()
        self._told = Told(folder, warehouse.uri)
        self._retiring = Retiring(folder)
        self._ends: dict[str, list[int]] = {}
        """Records that no flush may reach across (see `ends_beyond`)."""
        self._looked = time.monotonic()
        self.progress = Progress()
        for planned in self._journal.outstanding:
            self.progress.begin(planned.number)

    def run_once(self) -> int:
        """A flush, committed if this process may commit; how many records it took from the spools.

        Raises:
            StoreError: the store failed. Nothing is lost: the next round looks again.
        """
        before = bool(self._journal.outstanding)
        count = self.flush()
        if self._committed_all() and before and not count:  # what an earlier round left is through: now what is new
            count = self.flush()
            self._committed_all()
        return count

    def close(self) -> None:
        """Let another process commit at once, if it was this one that did.

        Raises:
            StoreError: the store failed; another process takes over a few seconds later.
        """
        self._told.tell(self._committed, at_once=True)
        self._lease.release()

    def _committed_all(self) -> bool:
        """Commit what waits if this process may; whether nothing is outstanding."""
        if self._lease.hold():
            while self._committer.run_once():
                pass
        return self.settle()

    @seldom_collected()  # until all that it made is dropped: what is looked at before is looked at in vain
    def flush(self) -> int:
        """Announce what is new in the spools, or again what was not announced; how many records that is.

        Raises:
            StoreError: the store failed. The same records come again next time.
        """
        outstanding = self._journal.outstanding
        lost = next((one for one in outstanding if one.number not in self._announced), None)
        if lost is not None:
            return self._again(lost) if lost is outstanding[0] else 0
        if len(outstanding) >= MAX_OUTSTANDING or (outstanding and (self._astray or self._rounds.crowded)):
            return 0
        if self._astray:
            self._rounds.forget()
            found = table_marks(self._warehouse)
            self._committed = self._warehouse.marks()
            self._ends = ends_beyond(self._committed, found)
            self._told.tell(self._committed)
            self._astray = False
        taken = self._intake.read(self._reached(), self._ends)
        if not taken.count:
            return 0
        planned = self._journal.plan(taken.ranges)
        self.progress.begin(planned.number, taken.count)
        self._announce(planned, taken)
        return taken.count if planned.number in self._announced else 0

    def settle(self) -> bool:
        """Learn what was committed, and tell the producers; whether nothing is outstanding.

        Raises:
            StoreError: the store failed; it is not known then.
        """
        if not self._journal.outstanding:
            self._told.tell(self._committed)
            self._retiring.look(self._told.marks)
            return True
        self._committed = self._warehouse.marks()
        done = list(takewhile(self._has, self._journal.outstanding))
        if done:
            self._journal.settle(done[-1].number)
            self._rounds.settled(done[-1].number)
            self.progress.commit(one.number for one in done)
            self._looked = time.monotonic()
            self._told.tell(self._committed)
        if not self._journal.outstanding:
            self._announced.clear()
            self._rounds.shrink()
            return True
        if time.monotonic() - self._looked >= _MISSED_AFTER:
            self._announced, self._looked = self._waiting(), time.monotonic()
            if not self._fits(self._journal.outstanding[0]):
                self._anew(_NOT_FITTING)
        return False

    def _again(self, lost: Planned) -> int:
        """The oldest flush is not in the inbox: its records once more."""
        self._announced = self._waiting()
        self._committed = self._warehouse.marks()  # committed, it is not in the inbox either
        if lost.number in self._announced or self._has(lost):
            return 0
        self._astray = True
        self._rounds.forget()
        # Later ones go on from rows that are made anew now, and may come out otherwise.
        self._withdraw()
        try:
            self._require_whole(lost)
            taken = self._intake.read_again(lost.ranges)
        except SpoolError as error:
            return self._anew(str(error))
        self._announce(lost, taken)
        return taken.count

    def _anew(self, reason: str) -> int:
        """Plan again from what is committed, with what the spools still have."""
        _log.warning("flush %d is not written again: %s", self._journal.outstanding[0].number, reason)
        self._withdraw()
        self._journal.drop()
        self.progress.drop()
        self._astray = True
        return 0

    def _withdraw(self) -> None:
        """Nothing of ours is to be in the inbox."""
        self._inbox.remove(self._inbox.keys(self.writer))
        self._announced.clear()

    def _fits(self, planned: Planned) -> bool:
        """Whether the oldest flush goes on from what is committed."""
        return all(self._committed.get(producer, 0) == after for producer, (after, _) in planned.ranges.items())

    def _require_whole(self, planned: Planned) -> None:
        """Raises SpoolError unless the oldest flush can still be committed: each table has all of its records or none."""
        if not self._fits(planned) or any(
            held(marks, planned.ranges) is None for marks in table_marks(self._warehouse)
        ):
            raise SpoolError(_NOT_FITTING)

    def _announce(self, planned: Planned, taken: Taken) -> None:
        try:
            if self._rounds.look() and self._journal.outstanding[0].number < planned.number:
                # What is under way is not in the tables yet, nor in memory any more: this one may build on it, and is made after it.
                self._astray = True
                return
            made = self._rounds.rows(taken.parsed, planned.ranges, planned.number)
            tables = {spec.name: self._warehouse.tables[spec.name] for spec in FACTS if spec.name in made.tables}
            with ThreadPoolExecutor(len(FACTS)) as pool:
                written = pool.map(lambda name: tables[name].write(made.tables[name]), tables)
                fragments = dict(zip(tables, written, strict=True))
            needs = {
                producer: upto
                for earlier in self._journal.outstanding
                for producer, (_, upto) in earlier.ranges.items()
                if earlier.number < planned.number
            }
            self._inbox.announce(
                Flush(
                    self.writer,
                    planned.number,
                    planned.ranges,
                    fragments,
                    needs=needs,
                    submitted=made.submitted,
                    checked=made.checked,
                    schema=SCHEMA_VERSION,
                    at=time.time(),
                )
            )
        except (OSError, RuntimeError, ValueError) as error:  # reading back what is stored: Lance's errors of the store
            self._astray = True
            raise StoreError(f"the store of {self._warehouse.uri} failed: {error}") from error
        except BaseException:
            self._astray = True
            raise
        self._announced.add(planned.number)
        self._looked = time.monotonic()

    def _waiting(self) -> set[int]:
        """The numbers of our flushes in the inbox."""
        if not self._journal.outstanding:
            return set()
        return {int(key.rpartition("/")[2]) for key in self._inbox.keys(self.writer)}

    def _has(self, planned: Planned) -> bool:
        return held(self._committed, planned.ranges) is True

    def _reached(self) -> Marks:
        """Up to where records are committed or on their way."""
        return self._committed | {
            producer: upto for one in self._journal.outstanding for producer, (_, upto) in one.ranges.items()
        }
