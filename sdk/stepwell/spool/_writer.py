"""A thread that writes to a spool on behalf of an event loop, many entries to a transaction."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from stepwell.errors import SpoolError, SpoolFull
from stepwell.spool._format import Entry
from stepwell.spool._job import Job
from stepwell.spool._lock import is_busy
from stepwell.spool._purge import serve_purge
from stepwell.spool._spool import Spool

_log = logging.getLogger(__name__)

_BATCH = 256
_TRIM_EVERY = 1.0
_TRIM = 2000
_WARN_EVERY = 60.0
_LOCKED = 6
"""How often a lock that somebody else holds on the database is waited for, each time for as long as SQLite does (ten seconds)."""


class SpoolWriter:
    """Owns a `Spool` and its thread.

    Neither `submit` nor `post` blocks: what the disk cannot take at once waits in memory up to `max_pending` bytes, beyond which it
    is refused. `cursor`, when given, is asked about once a second up to which number everything is in the warehouse, and what lies
    below is dropped. What was posted waits `linger` seconds for company: a trickle of single entries otherwise costs one commit each.
    """

    def __init__(
        self,
        spool: Spool,
        *,
        max_pending: int = 256 << 20,
        cursor: Callable[[str], int] | None = None,
        linger: float = 0.0,
    ) -> None:
        self.spool = spool
        self.lost = 0
        self._unsaid = 0
        self._cursor = cursor
        self._max_pending = max_pending
        self._linger = linger
        self._pending = 0
        self._closed = False
        self._lock = threading.Lock()
        self._next_trim = 0.0
        self._more_to_trim = False
        self._next_warning = 0.0
        self._hurry = threading.Event()
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"spool-{spool.path.stem}", daemon=True)
        self._thread.start()

    @property
    def pending(self) -> int:
        """Bytes waiting in memory for the disk."""
        return self._pending

    def submit(self, *entries: Entry) -> Future[list[int]]:
        """Queue `entries` as one unit, for someone who waits: what is queued is written at once.

        The future ends when the entries are durable and gives their running numbers, or raises `SpoolFull` or `SpoolError`. It cannot
        be cancelled: what was submitted is written.
        """
        done: Future[list[int]] = Future()
        # Whoever stops waiting for it (an event loop cancels what it wraps) must not leave a future that cannot be answered any more.
        done.set_running_or_notify_cancel()
        self._add(Job(entries, written=done.set_result, refused=done.set_exception))
        self._hurry.set()
        return done

    def post(self, entry: Entry, refused: Callable[[SpoolError], None], after: Job | None = None) -> Job:
        """Queue `entry`, for someone who need only know when it is refused: `refused` is called then, on the writer's thread or here.

        `after` is what an earlier call gave: if that was refused, this is dropped without a word.
        """
        job = Job((entry,), refused=refused, after=after)
        self._add(job)
        return job

    def _add(self, job: Job) -> None:
        if error := self._queued(job):
            job.refuse(error)

    def _queued(self, job: Job) -> SpoolError | None:
        """Queue it, or say why not. Under the lock: nothing may come to stand behind the end of the queue."""
        with self._lock:
            if self._closed:
                return SpoolError(f"the spool {self.spool.path} is closed: nothing can be kept any more")
            if self._pending + job.size > self._max_pending:
                return SpoolFull("the disk does not keep up: too much waits in memory to be spooled")
            self._pending += job.size
            self._queue.put(job)
        return None

    def count_loss(self, count: int = 1) -> None:
        """Count something that could not be kept; the spool remembers it as soon as it can be written again."""
        with self._lock:
            self.lost += count
            self._unsaid += count

    def flush(self, timeout: float | None = None) -> None:
        """Return when everything submitted so far is durable or refused. Raises TimeoutError after `timeout` seconds."""
        self.submit().result(timeout)

    def close(self) -> None:
        """Write what is queued, then close the spool. What is submitted from now on is refused."""
        with self._lock:
            self._closed = True
            self._queue.put(None)
        self._hurry.set()
        self._thread.join()

    def _run(self) -> None:
        open_ = True
        while open_:
            jobs, open_ = self._collect()
            if jobs:
                self._write(jobs)
            self._housekeep()
        self.spool.close()

    def _collect(self) -> tuple[list[Job], bool]:
        """What is queued, up to one transaction's worth; False when told to stop."""
        jobs: list[Job] = []
        try:
            job = self._queue.get(timeout=_TRIM_EVERY if not self._more_to_trim else 0.001)
            if self._linger and job is not None:
                self._hurry.wait(self._linger)
                self._hurry.clear()  # before taking what is queued: who comes later hurries the next one
            while job is not None:
                jobs.append(job)
                if len(jobs) >= _BATCH:
                    return jobs, True
                job = self._queue.get_nowait()
        except queue.Empty:
            return jobs, True
        return jobs, False

    def _write(self, jobs: list[Job]) -> None:
        jobs = self._useful(jobs)
        try:
            numbers = self._append([entry for job in jobs for entry in job.entries])
        except SpoolError as error:
            if is_busy(error.__cause__):
                for job in jobs:
                    self._refuse(job, error)
            else:
                self._write_singly(jobs, error)
        except Exception as error:  # noqa: BLE001 — the boundary of the thread: if a bug ended it, every producer would wait forever
            _log.exception("writing to the spool %s failed", self.spool.path)
            for job in jobs:
                self._refuse(job, SpoolError(f"cannot write to the spool {self.spool.path}: {error!r}"))
        else:
            self._leave(jobs)
            start = 0
            for job in jobs:
                count = len(job.entries)
                job.end(numbers[start : start + count])
                start += count

    def _append(self, entries: Sequence[Entry]) -> list[int]:
        """Keep them. Whoever holds the lock is waited for, while memory takes what comes, unless everybody waits for the end."""
        for _ in range(_LOCKED - 1):
            try:
                return self.spool.append(entries)
            except SpoolError as error:
                if self._closed or not is_busy(error.__cause__):
                    raise
                self._warn(error)
        return self.spool.append(entries)

    def _write_singly(self, jobs: list[Job], error: SpoolError) -> None:
        """A batch was refused: one oversized neighbour must not take the others with it."""
        if len(jobs) == 1:
            self._refuse(jobs[0], error)
            return
        for job in jobs:
            if not self._useful([job]):
                continue
            try:
                numbers = self.spool.append(job.entries)
            except SpoolError as single:
                self._refuse(job, single)
            else:
                self._leave([job])
                job.end(numbers)

    def _useful(self, jobs: list[Job]) -> list[Job]:
        """Those worth writing; the others are let go."""
        for job in jobs:
            if job.useless:
                self._refuse(job, SpoolError("what it belongs to was refused"))
        return [job for job in jobs if not job.failed]

    def _refuse(self, job: Job, error: SpoolError) -> None:
        self._leave([job])
        job.refuse(error)

    def _leave(self, jobs: list[Job]) -> None:
        """They are in memory no more. Before their futures end, so that whoever waited finds the room it was promised."""
        with self._lock:
            self._pending -= sum(job.size for job in jobs)

    def _trim(self, cursor: Callable[[str], int]) -> None:
        """Drop one portion. After a full one the next follows at once: ingest may be faster than one portion a second."""
        self._next_trim, self._more_to_trim = time.monotonic() + _TRIM_EVERY, False
        self._more_to_trim = self.spool.trim(cursor(self.spool.producer), limit=_TRIM) == _TRIM

    def _housekeep(self) -> None:
        with self._lock:
            unsaid, self._unsaid = self._unsaid, 0
        try:
            if unsaid:
                self.spool.add_lost(unsaid)
                unsaid = 0
            if self._cursor is not None and (self._more_to_trim or time.monotonic() >= self._next_trim):
                self._trim(self._cursor)
                if not self._more_to_trim:
                    serve_purge(self.spool)
        except Exception as error:  # noqa: BLE001 — the boundary of housekeeping: it must not end the thread that writes
            self._warn(error)
        with self._lock:
            self._unsaid += unsaid

    def _warn(self, error: Exception) -> None:
        """Say that something failed that is tried again, unless that was said a moment ago."""
        if (now := time.monotonic()) >= self._next_warning:
            self._next_warning = now + _WARN_EVERY
            _log.warning("the spool %s is kept as it is: %s", self.spool.path, error)
