"""The ingest process: rounds until told to stop."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stepwell.errors import CommitConflict, SettingsError, StoreError
from stepwell.spool import ProcessLock
from stepwell.warehouse._config import IngestConfig
from stepwell.warehouse._ingest import Ingest
from stepwell.warehouse._maintain import maintain
from stepwell.warehouse._redact import RedactConfig, Redactor
from stepwell.warehouse._warehouse import Warehouse

_log = logging.getLogger(__name__)

_MAINTAIN_EVERY = 64
_LONGEST_PAUSE = 30.0


def run_ingest(
    config: IngestConfig,
    *,
    data: Path,
    warehouse: str,
    storage_options: Mapping[str, str],
    ready: Callable[[dict[str, Any]], None],
    stop: threading.Event | None = None,
    redact: RedactConfig | None = None,
) -> None:
    """Ingest the spools of the data folder until SIGTERM, SIGINT or `stop`; then what is left, for a few seconds.

    Raises:
        SettingsError: another ingest works on this folder, the warehouse cannot be opened, or a rule of `redact` cannot work.
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
        ingest = Ingest(opened, data / "spool", redactor)
    except StoreError as error:
        lock.release()
        raise SettingsError(str(error)) from error
    try:
        ready({"warehouse": warehouse})
        maintain(opened.tables.values())  # short runs would otherwise leave their fragments for ever
        _work(ingest, opened, config, stop)
        if _drain(ingest, config):
            maintain(opened.tables.values())
    finally:
        lock.release()


def _work(ingest: Ingest, warehouse: Warehouse, config: IngestConfig, stop: threading.Event) -> None:
    pause, rounds = config.idle, 0
    while not stop.wait(pause):
        try:
            count = ingest.run_once()
        except CommitConflict as error:
            _log.warning("%s; looking again", error)
            continue
        except StoreError as error:
            pause = min(max(pause, config.interval) * 2, _LONGEST_PAUSE)
            _log.warning("%s; the spools keep what comes, next try in %.0f s", error, pause)
            continue
        pause = config.interval if count else config.idle
        rounds += 1 if count else 0
        if count and rounds % _MAINTAIN_EVERY == 0:
            maintain(warehouse.tables.values())


def _drain(ingest: Ingest, config: IngestConfig) -> bool:
    """Take in what is left; False when the store failed."""
    deadline = time.monotonic() + config.drain
    while time.monotonic() < deadline:
        try:
            if not ingest.run_once():
                return True
        except StoreError as error:
            _log.warning("%s; what is left in the spools comes at the next start", error)
            return False
    return True


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
