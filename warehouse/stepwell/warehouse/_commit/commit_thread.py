"""Committing beside ingest: for the whole warehouse while this process has the lease, which it takes when nobody keeps it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from datetime import timedelta

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._commit.committer import Committer
from stepwell.warehouse._commit.maintain_thread import MaintainThread
from stepwell.warehouse._commit.summary_thread import SummaryThread
from stepwell.warehouse._store.flush import Inbox
from stepwell.warehouse._store.lease import BEAT, PATIENCE, Lease
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._store.s3 import is_object_store
from stepwell.warehouse._upkeep.maintain import KEPT
from stepwell.warehouse._warehouse import Warehouse

_log = logging.getLogger(__name__)

_LONGEST_PAUSE = 30.0
_LOCAL_POLL, _STORE_POLL = 0.05, 0.25
"""Seconds between looks into the inbox; each is a request."""


class CommitThread:
    """Commits until it is stopped. It has tables of its own: a `Warehouse` is for one thread."""

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, str],
        owner: str,
        *,
        beat: float = BEAT,
        patience: float = PATIENCE,
        keep: timedelta = KEPT,
        keep_raw: timedelta | None = None,
    ) -> None:
        """`beat` and `patience` are the lease's; for `keep` old versions stay, and for `keep_raw` raw calls.

        Raises:
            StoreError: the warehouse cannot be opened.
        """
        self._warehouse = Warehouse.open(uri, storage_options=storage_options)
        objects = objects_at(self._warehouse.uri, self._warehouse.storage_options)
        self._lease = Lease(objects, owner, beat=beat, patience=patience)
        self._committer = Committer(self._warehouse, Inbox(objects), self._lease.hold)
        self._beat = beat
        self._poll = _STORE_POLL if is_object_store(uri) else _LOCAL_POLL
        self._wake, self._stop = threading.Event(), threading.Event()
        self._maintaining = MaintainThread(uri, storage_options, lambda: self._lease.held, keep=keep, keep_raw=keep_raw)
        self._summing = SummaryThread(uri, storage_options, lambda: self._lease.held)
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()
        self._maintaining.start()
        self._summing.start()

    def wake(self) -> None:
        """Something was announced: look now, if committing is up to this process."""
        if self._lease.held:
            self._wake.set()

    def stop(self, timeout: float) -> None:
        """End after what is announced now, and let another process go on at once."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
            self._maintaining.stop(timeout)
            self._summing.stop(timeout)

    @property
    def commits(self) -> bool:
        """Whether this process has the lease."""
        return self._lease.held

    def check(self) -> None:
        """Raises StoreError when it ended by itself: nothing is committed any more then, and the process is to start again."""
        if self._thread.ident is not None and not self._thread.is_alive() and not self._stop.is_set():
            raise StoreError(
                "the committer has ended, as its log says; nothing is committed until ingest is started again"
            )

    def _run(self) -> None:
        pause = self._poll
        while not self._stop.is_set():
            pause = self._tried(pause)
            self._wake.wait(pause)
            self._wake.clear()
        self._tried(pause)  # what this process has announced last
        try:
            self._lease.release()
        except StoreError as error:
            _log.warning("%s; another process takes the lease a few seconds later", error)

    def _tried(self, pause: float) -> float:
        """One look, whatever comes of it; how long to wait for the next one, when the last one was `pause`."""
        longer = min(max(pause, self._poll) * 2, _LONGEST_PAUSE)
        try:
            return self._turn()
        except CommitConflict as error:
            _log.warning("%s; looking again", error)
            return self._poll
        except StoreError as error:
            _log.warning("%s; what is announced stays so, next try in %.1f s", error, longer)
        except Exception:  # noqa: BLE001 — the boundary of the thread: whatever it is, the next flushes are to be committed
            _log.exception("committing failed; what is announced stays so, next try in %.1f s", longer)
        return longer

    def _turn(self) -> float:
        """One look; how long to wait for the next one."""
        if not (self._lease.held or self._lease.hold()):  # the committer keeps one that it has
            return self._beat
        return 0.0 if self._committer.run_once() else self._poll
