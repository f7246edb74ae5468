"""Forgetting: trajectories or steps out of a warehouse for good, with everything that was derived from them or is on its way.

Beside a running ingest. First the tombstones, so that nothing of it comes in any more; then whatever was announced before they were known
is committed or refused; then the rows go, and their bytes. Spools come last: their producers drop what is committed, and make their files
anew when they are asked to.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from stepwell.errors import CommitConflict, DeliveryError, InvalidRecord
from stepwell.spool import ProcessLock, marks
from stepwell.warehouse._commit.committer import Committer
from stepwell.warehouse._datasets.forgotten import mark
from stepwell.warehouse._forget import tables as purging
from stepwell.warehouse._forget.plan import Plan, plan
from stepwell.warehouse._forget.report import Forgotten, told
from stepwell.warehouse._forget.spools import purge_spools
from stepwell.warehouse._ingest.ingest import Ingest
from stepwell.warehouse._ingest.tombstones import bury
from stepwell.warehouse._redact.rules import RedactConfig, Redactor
from stepwell.warehouse._store.flush import Inbox
from stepwell.warehouse._store.lease import Lease
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._tables.schema import FACTS, FORGOTTEN, GROUPS, TRAJECTORIES
from stepwell.warehouse._tables.table import guarded
from stepwell.warehouse._upkeep.summaries import clear
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
        is still in the spools is taken in first, so that it is found.

        Raises:
            InvalidRecord: neither is given.
            DeliveryError: ingest, committer or store did not get on in time; run it again.
            StoreError: the store failed; run it again.
            StepwellError: the condition is no valid SQL.
        """
        if not trajectories and where is None:
            raise InvalidRecord("where", "name trajectories, or give a condition")
        with self._taken_in():
            steps: list[str] = []
            if where is not None:
                found = self._warehouse.query(f"SELECT step_id FROM steps WHERE ({where}\n)")
                steps = found["step_id"].to_pylist()
            made = self._planned(trajectories, steps)
            if not confirm(told(made, self._labels(made))):
                return None
            number = self._bury(made)
            self._settle(number)
            # What came in since the first look is of the same trajectories: it goes as well.
            made = self._planned([*made.trajectories], [*made.steps])
            self._bury(made)
            labels = mark(self._warehouse.tables["datasets"], made.datasets, made.trajectories | made.steps)
            said = guarded(self._warehouse.uri, self._purge, made)
            pending = purge_spools(self._data / "spool", self._warehouse.marks(), self._patience) if self._data else []
        return told(made, labels, said, pending)

    def _planned(self, trajectories: Sequence[str], steps: Sequence[str]) -> Plan:
        tables, payloads = self._warehouse.tables, self._warehouse.payloads
        return guarded(self._warehouse.uri, plan, tables, payloads, trajectories=trajectories, steps=steps)

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
            self._wait(lambda: self._warehouse.wait_for(accepted, 0.0), "the running ingest")
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

    @property
    def _spools(self) -> Path:
        assert self._data is not None
        return self._data / "spool"

    def _drained(self) -> object:
        assert self._ingest is not None
        count = self._ingest.run_once()
        return count or not self._ingest.settle()

    def _bury(self, made: Plan) -> int:
        number = bury(self._warehouse.tables[FORGOTTEN.name], made.ids())
        for spec in FACTS:
            purging.fence(self._warehouse.tables[spec.name])
        return number

    def _settle(self, number: int) -> None:
        """What was announced by writers that did not know of it is committed, or refused. By us, where nobody else does it."""
        lease = Lease(self._objects, f"forget-{uuid.uuid4().hex}")
        committer = Committer(self._warehouse, self._inbox, lease.hold)

        def waiting() -> object:
            if self._ingest is not None:
                self._ingest.run_once()
            old = [
                flush for flush in self._inbox.read(self._inbox.keys()) if flush.checked.get(FORGOTTEN.name, 0) < number
            ]
            if old and lease.hold():
                committer.run_once()
            return old

        try:
            self._wait(waiting, "whoever commits for the warehouse")
        finally:
            lease.release()

    def _purge(self, made: Plan) -> purging.Purged:
        said, tables = purging.Purged(), self._warehouse.tables
        for rows in made.rebased:
            purging.replace(tables["steps"], rows)
        going = purging.rows_that_go(made)
        for name, ids in going.items():
            said.rows[name] = purging.delete(tables[name], ids)
        clear(tables)
        going |= {TRAJECTORIES.name: {"trajectory_id": made.trajectories | made.partly}, GROUPS.name: {}}
        options = self._warehouse.storage_options
        for name, ids in going.items():
            purging.scrub(tables[name], ids, said)
            # What was never committed is known by what it is about.
            about = ids | {"target_id": made.steps | made.trajectories | made.responses}
            made.payloads |= set(purging.sweep_litter(tables[name], about, self._objects, options, said))
        purging.scrub(tables["datasets"], {}, said)
        self._purge_payloads(made, said)
        return said

    def _purge_payloads(self, made: Plan, said: purging.Purged) -> None:
        table, steps = self._warehouse.tables["payloads"], self._warehouse.tables["steps"]
        kept: set[str] = set()
        for batch in steps.dataset.to_batches(columns=["payload_ids"], filter="payload_ids IS NOT NULL"):
            kept |= {id_ for ids in batch["payload_ids"].to_pylist() for id_ in ids}
        ids: purging.Ids = {"payload_id": made.payloads - kept}
        said.rows["payloads"] = purging.delete(table, ids)
        purging.scrub(table, ids, said)
        purging.sweep_litter(table, ids, self._objects, self._warehouse.storage_options, said)

    def _wait(self, busy: Callable[[], object], who: str) -> None:
        deadline, trouble = time.monotonic() + self._patience, ""
        while True:
            try:
                if not busy():
                    return
            except CommitConflict as error:
                trouble = f": {error}"
            if time.monotonic() >= deadline:
                raise DeliveryError(f"{who} did not get on in {self._patience:g} s{trouble}; run this again")
            time.sleep(_POLL)
