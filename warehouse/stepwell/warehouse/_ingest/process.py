"""The ingest process: rounds until told to stop."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from stepwell.errors import SettingsError, StoreError
from stepwell.spool import Figure, ProcessLock, spool_figures
from stepwell.warehouse._commit.commit_thread import CommitThread
from stepwell.warehouse._ingest.config import IngestConfig
from stepwell.warehouse._ingest.ingest import Ingest
from stepwell.warehouse._ingest.metrics import served
from stepwell.warehouse._parse.raw import Raw
from stepwell.warehouse._redact.rules import RedactConfig, Redactor
from stepwell.warehouse._store.lease import BEAT, PATIENCE
from stepwell.warehouse._warehouse import Warehouse

_log = logging.getLogger(__name__)

_LONGEST_PAUSE = 30.0
_STOPPING = 10.0
"""Seconds for the commit in hand."""
_SETTLING = 0.01


def run_ingest(
    config: IngestConfig,
    *,
    data: Path,
    warehouse: str,
    storage_options: Mapping[str, str],
    ready: Callable[[dict[str, Any]], None],
    stop: threading.Event | None = None,
    redact: RedactConfig | None = None,
    beat: float = BEAT,
    patience: float = PATIENCE,
) -> None:
    """Ingest the spools of the data folder until SIGTERM, SIGINT or `stop`; then what is left, for a few seconds.

    Raises:
        SettingsError: another ingest works on this folder, the warehouse cannot be opened, or a rule of `redact` cannot work.
        StoreError: what commits has ended by itself; starting again helps.
    """
    redactor = Redactor(redact)
    stop = stop or _stop_on_signals()
    lock = ProcessLock(data / "ingest.lock")
    data.mkdir(parents=True, exist_ok=True)
    if not lock.acquire(config.lock_wait):
        raise SettingsError(f"another ingest works on {data}; one is enough: stop it, or use another data folder")
    try:
        opened = Warehouse.open(warehouse, storage_options=storage_options)
        (data / "spool").mkdir(exist_ok=True)
        ingest = Ingest(opened, data / "spool", redactor, Raw(config.raw, config.raw_max_bytes))
        committing = CommitThread(
            warehouse,
            storage_options,
            ingest.writer,
            beat=beat,
            patience=patience,
            keep=timedelta(seconds=config.keep_versions),
            keep_raw=config.raw_age,
        )
    except BaseException as error:
        lock.release()
        if isinstance(error, StoreError):
            raise SettingsError(str(error)) from error
        raise
    try:
        with _told(config, ingest, committing, data / "spool") as port:
            ready({"warehouse": warehouse, **port})
            committing.start()
            _work(ingest, committing, config, stop)
            _drain(ingest, committing, config)
    finally:
        committing.stop(_STOPPING)
        lock.release()


@contextmanager
def _told(config: IngestConfig, ingest: Ingest, committing: CommitThread, folder: Path) -> Iterator[dict[str, int]]:
    """Metrics are served meanwhile, where that is wished; on which port."""
    if config.metrics_port is None:
        yield {}
        return

    def figures() -> list[Figure]:
        return [*ingest.progress.figures(commits=committing.commits), *spool_figures(folder)]

    with served(config.metrics_host, config.metrics_port, figures) as port:
        yield {"metrics_port": port}


def _work(ingest: Ingest, committing: CommitThread, config: IngestConfig, stop: threading.Event) -> None:
    pause = config.idle
    while not stop.wait(pause):
        committing.check()
        try:
            count = ingest.flush()
            if count:
                committing.wake()
            ingest.settle()
        except StoreError as error:
            ingest.progress.failures += 1
            pause = min(max(pause, config.interval) * 2, _LONGEST_PAUSE)
            _log.warning("%s; the spools keep what comes, next try in %.0f s", error, pause)
        else:
            pause = config.interval if count else config.idle


def _drain(ingest: Ingest, committing: CommitThread, config: IngestConfig) -> None:
    """Take in what is left, and see it committed."""
    deadline = time.monotonic() + config.drain
    while time.monotonic() < deadline:
        try:
            settled = ingest.settle()
            count = ingest.flush()
            if settled and not count:
                return
            committing.wake()
        except StoreError as error:
            _log.warning("%s; what is left in the spools comes at the next start", error)
            return
        time.sleep(_SETTLING)


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
