"""Forgetting: trajectories or steps out of a warehouse for good, with everything that was derived from them or is on its way.

Beside a running ingest. First the tombstones, so that nothing of it comes in any more; then whatever was announced before they were known
is committed or refused; then the rows go, and their bytes. Spools come last: their producers drop what is committed, and make their files
anew when they are asked to. A run that was interrupted anywhere is finished by the next one, whatever that one is asked for.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from pathlib import Path

from stepwell.errors import CommitConflict, DeliveryError, InvalidRecord
from stepwell.spool import ProcessLock, marks
from stepwell.warehouse._commit.committer import Committer
from stepwell.warehouse._datasets.forgotten import mark
from stepwell.warehouse._forget.begun import Begun
from stepwell.warehouse._forget.litter import Litter
from stepwell.warehouse._forget.plan import Plan, plan
from stepwell.warehouse._forget.purge import purge
from stepwell.warehouse._forget.report import Forgotten, told
from stepwell.warehouse._forget.spools import purge_spools
from stepwell.warehouse._forget.tables import Purged, fence
from stepwell.warehouse._ingest.ingest import Ingest
from stepwell.warehouse._ingest.tombstones import bury
from stepwell.warehouse._redact.rules import RedactConfig, Redactor
from stepwell.warehouse._store.flush import Flush, Inbox
from stepwell.warehouse._store.lease import Lease
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._tables.schema import FACTS, FORGOTTEN
from stepwell.warehouse._tables.table import guarded
from stepwell.warehouse._warehouse import Warehouse

_POLL = 0.1
PATIENCE = 60.0
"""Seconds for a running ingest, a committer or a producer to do its part."""


class Forget:
    """One run. Use it once."""

    def __init__(
        self,
        warehouse: Warehouse,
        data: Path | None = None,
        *,
        redact: RedactConfig | None = None,
        patience: float = PATIENCE,
    ) -> None:
        """`data`: the data folder whose spools are to be purged, too. `redact`: its rules, for what is still in them.

        Raises:
            SettingsError: a rule cannot work.
        """
        self._warehouse, self._data, self._patience = warehouse, data, patience
        self._redactor = Redactor(redact)
        self._objects = objects_at(warehouse.uri, warehouse.storage_options)
        self._inbox = Inbox(self._objects)
        self._begun = Begun(self._objects)
        self._ingest: Ingest | None = None

    def run(
        self,
        trajectories: Sequence[str] = (),
        where: str | None = None,
        *,
        confirm: Callable[[Forgotten], bool] = lambda _: True,
    ) -> Forgotten | None:
        """Forget these trajectories, and the steps that `where` selects: a condition over the view `steps`.

        `confirm` gets what would be forgotten, and says whether to go on; None is returned when it says no. What was accepted before and
        is still in the spools is taken in first, so that it is found. What an earlier run was interrupted in is forgotten, too.

        Raises:
            InvalidRecord: neither is given.
            DeliveryError: ingest, committer or store did not get on in time; run it again.
            StoreError: the store failed; run it again.
            StepwellError: the condition is no valid SQL.
        """
        if not trajectories and where is None:
            raise InvalidRecord("where", "name trajectories, or give a condition")
        with self._taken_in():
            asked = Plan(steps=self._selected(where), trajectories=set(trajectories))
            begun = self._begun.read()
            found = self._planned(reduce(Plan.__or__, begun.values(), asked))
            if not confirm(told(found, self._labels(found), resumed=len(begun))):
                return None
            resumed, said, done = len(begun), Purged(), Plan()
            if not any(asked.known() <= one.known() for one in begun.values()):
                begun[uuid.uuid4().hex] = asked
            for run, known in begun.items():
                done |= self._carry_out(run, known, said)
            pending = purge_spools(self._spools, self._warehouse.marks(), self._patience) if self._data else []
            for run in begun:
                self._begun.finish(run)
        return told(done, self._labels(done), said, pending, resumed=resumed)

    def _selected(self, where: str | None) -> set[str]:
        if where is None:
            return set()
        return set(self._warehouse.query(f"SELECT step_id FROM steps WHERE ({where}\n)")["step_id"].to_pylist())

    def _planned(self, known: Plan) -> Plan:
        tables, payloads = self._warehouse.tables, self._warehouse.payloads
        return guarded(self._warehouse.uri, plan, tables, payloads, known)

    def _labels(self, made: Plan) -> list[str]:
        return [one.label for one in self._warehouse.datasets.list() if one.dataset_id in made.datasets]

    @contextmanager
    def _taken_in(self) -> Iterator[None]:
        """What the spools have accepted is in the tables; as long as this lasts no other ingest begins on them."""
        if self._data is None or not (self._data / "spool").is_dir():
            yield
            return
        lock = ProcessLock(self._data / "ingest.lock")
        if not lock.acquire():
            accepted = marks(self._spools)  # once: producers go on
            self._wait(lambda: self._missing(accepted), "the running ingest")
            yield
            return
        try:
            self._ingest = Ingest(self._warehouse, self._spools, self._redactor)
            self._wait(self._drained, "committing what is in the spools")
            yield
        finally:
            if self._ingest is not None:
                self._ingest.close()
            lock.release()

    def _missing(self, accepted: Mapping[str, int]) -> Mapping[str, int]:
        """By producer that is not committed as far as this, how far it is."""
        marks = self._warehouse.marks()
        return {name: marks.get(name, 0) for name, upto in accepted.items() if marks.get(name, 0) < upto}

    @property
    def _spools(self) -> Path:
        assert self._data is not None
        return self._data / "spool"

    def _drained(self) -> object:
        assert self._ingest is not None
        count = self._ingest.run_once()
        return self._warehouse.marks() if count or not self._ingest.settle() else None

    def _carry_out(self, run: str, known: Plan, said: Purged) -> Plan:
        """All of one run, from wherever it was interrupted."""
        warehouse, made = self._warehouse, self._planned(known)
        litter = Litter(warehouse.tables, self._objects, warehouse.storage_options)
        while True:
            self._begun.write(run, made)
            litter.look()
            litter.add(self._settle(self._bury(made)))
            before, made = made, self._planned(made)
            if made.known() <= before.known():
                break  # else more came in between the plan and the tombstones
        mark(warehouse.tables["datasets"], made.datasets, made.trajectories | made.steps, run)
        guarded(warehouse.uri, purge, warehouse, made, litter, said, partial(self._begun.write, run))
        fence(warehouse.tables[FORGOTTEN.name])  # by which a copy knows that something went
        return made

    def _bury(self, made: Plan) -> int:
        number = bury(self._warehouse.tables[FORGOTTEN.name], made.ids())
        for spec in FACTS:
            fence(self._warehouse.tables[spec.name])
        return number

    def _settle(self, number: int) -> Collection[Flush]:
        """What was announced by writers that did not know of it, all committed by now or refused: by us, where nobody else does it."""
        lease = Lease(self._objects, f"forget-{uuid.uuid4().hex}")
        committer = Committer(self._warehouse, self._inbox, lease.hold)
        seen: dict[str, Flush] = {}

        def waiting() -> object:
            if self._ingest is not None:
                self._ingest.run_once()
            there = self._inbox.read(self._inbox.keys())
            old = {flush.key: flush for flush in there if flush.checked.get(FORGOTTEN.name, 0) < number}
            seen.update(old)
            if old and lease.hold():
                committer.run_once()
            return sorted(old)

        try:
            self._wait(waiting, "whoever commits for the warehouse")
        finally:
            lease.release()
        return seen.values()

    def _wait(self, left: Callable[[], object], who: str) -> None:
        """Until `left` says that nothing is left, or the same for too long."""
        deadline, trouble, before = time.monotonic() + self._patience, "", None
        while True:
            try:
                now = left()
                if not now:
                    return
                if now != before:
                    deadline, before = time.monotonic() + self._patience, now
            except CommitConflict as error:
                trouble = f": {error}"
            if time.monotonic() >= deadline:
                raise DeliveryError(
                    f"{who} did not get on in {self._patience:g} s{trouble or _left(before)}; run this again"
                )
            time.sleep(_POLL)


def _left(what: object) -> str:
    """For the error: what it is that nobody got on with."""
    return f", {what!r:.300} being left" if what is not None else ""
