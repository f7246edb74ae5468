"""Imported exchanges on their way into the warehouse: through a spool of their own and ingest, like everything else."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stepwell.cli._flush import committed_in, wait_committed
from stepwell.errors import DeliveryError, SpoolFull, StoreError
from stepwell.exchange import Found, Request, request_entry, response_entry
from stepwell.sdk.records import Trajectory, checked, encoded
from stepwell.spool import Entry, ProcessLock, Spool

if TYPE_CHECKING:
    from stepwell.cli._settings import Settings

_ENTRIES = 512
_BYTES = 8 << 20
_PATIENCE = 60.0
"""Seconds in which a running ingest must have got on."""


class Delivery:
    """Writes exchanges, or other entries, to a spool of a data folder; when closed in good order all of them are in the warehouse.

    `facts` are the fields of a trajectory: with a `trajectory_id` all exchanges belong to it, which then is opened and completed;
    without, they are said of each exchange in the headers that an agent would use.
    """

    def __init__(self, settings: Settings, facts: dict[str, str], *, spool: str = "import.db") -> None:
        self._settings = settings
        self._facts = facts
        self._record = checked(Trajectory, facts) if "trajectory_id" in facts else None
        self._spool = Spool(settings.spools / spool)
        self._batch: list[Entry] = []
        self._size = 0
        self._mark = 0
        self._ids = hashlib.blake2b(digest_size=16)

    def __enter__(self) -> Delivery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._spool.close()

    def add(self, found: Found) -> None:
        """Keep an exchange. It is on the disk when `finish` returns."""
        exchange = found.exchange
        if self._record is not None and not self._mark and not self._batch:
            self._append([_event(self._record, "open", encoded(self._record))])
        self._ids.update(exchange.id.encode())
        request = request_entry(
            exchange.id,
            self._attributed(exchange.request),
            dialect=exchange.dialect,
            client=exchange.client,
            request_known=exchange.request_known,
            trajectory_id=self._record.trajectory_id if self._record else None,
        )
        self._append([request, response_entry(exchange.id, exchange.response, exchange.dialect)])

    def keep(self, entry: Entry) -> None:
        """Keep what is no exchange. It is on the disk when this returns."""
        self._append([entry])
        self._write()

    def finish(self) -> None:
        """Return when everything added is committed.

        Raises:
            DeliveryError: the warehouse did not take it all; what is left stays in the spool.
        """
        self._write()
        if self._record is not None and self._mark:
            marks = {self._spool.producer: self._mark}
            ended = self._record.model_copy(update={"state": "completed", "marks": marks})
            self._append([_event(self._record, f"completed.{self._ids.hexdigest()}", encoded(ended))])
            self._write()
        if self._mark:
            self._settle()

    def _attributed(self, request: Request) -> Request:
        if self._record is not None or not self._facts:
            return request
        said = [(f"x-stepwell-{name.removesuffix('_id')}", value) for name, value in self._facts.items()]
        names = {name for name, _ in said}
        return replace(request, headers=[*said, *(pair for pair in request.headers if pair[0] not in names)])

    def _append(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self._batch.append(entry)
            self._size += entry.size
        if len(self._batch) >= _ENTRIES or self._size >= _BYTES:
            self._write()

    def _write(self) -> None:
        try:
            numbers = self._spool.append(self._batch)
        except SpoolFull:
            if not self._mark:
                raise
            self._settle()
            numbers = self._spool.append(self._batch)
        self._mark = max(self._mark, *numbers, 0)
        self._batch, self._size = [], 0

    def _settle(self) -> None:
        """Everything written is in the warehouse, and no longer in the spool."""
        target = {self._spool.producer: self._mark}
        if not self._ingest_here(target):
            self._wait(target)
        while self._spool.trim(self._mark):
            pass

    def _ingest_here(self, target: dict[str, int]) -> bool:
        """Do what the ingest process does, until the spools are empty; False when one works on this folder."""
        settings = self._settings
        process, inner = ProcessLock(settings.data / "ingest-process.lock"), ProcessLock(settings.data / "ingest.lock")
        if not process.acquire():
            return False
        try:
            if not inner.acquire():
                return False
            inner.release()
            from stepwell.warehouse import run_ingest

            stop = threading.Event()
            stop.set()
            run_ingest(
                settings.ingest.model_copy(update={"drain": math.inf}),
                data=settings.data,
                warehouse=settings.warehouse_uri,
                storage_options=settings.store.storage_options(),
                ready=lambda _: None,
                redact=settings.redact,
                stop=stop,
            )
        finally:
            process.release()
        self._check(target)
        return True

    def _check(self, target: dict[str, int]) -> None:
        try:
            wait_committed(target, self._committed(), timeout=0)
        except DeliveryError as error:
            raise DeliveryError(
                f"the warehouse {self._settings.warehouse_uri} did not take everything ({error}); "
                "what is left is kept, and comes with the next import or `stepwell up`"
            ) from error

    def _wait(self, target: dict[str, int]) -> None:
        """Until the running ingest has come so far, for as long as it gets on at all."""
        committed, done = self._committed(), -1
        while True:
            try:
                return wait_committed(target, committed, timeout=_PATIENCE)
            except DeliveryError as late:
                try:
                    before, done = done, committed().get(self._spool.producer, 0)
                except StoreError:  # as it was all the time, which `late` says
                    raise late from None
                if done <= before:
                    raise

    def _committed(self) -> Any:
        settings = self._settings
        return committed_in(settings.warehouse_uri, settings.store.storage_options())


def _event(record: Trajectory, what: str, body: bytes) -> Entry:
    """An id that follows from what is said: importing twice says it once."""
    facts = hashlib.blake2b(encoded(record), digest_size=8).hexdigest()
    return Entry(id=f"{record.trajectory_id}.import.{facts}.{what}", kind="trajectory", body=body)
