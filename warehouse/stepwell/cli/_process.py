"""What every long-running process does around its work: one per data folder, says when it is ready, ends with its supervisor."""

from __future__ import annotations

import json
import logging
import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from stepwell.cli._logs import start_logging
from stepwell.errors import SettingsError
from stepwell.spool import ProcessLock

_log = logging.getLogger(__name__)

_TAKEOVER_SECONDS = 15.0
"""How long a supervised process waits, at least, for the one before it, whose supervisor was killed and which still drains."""
_SLACK_SECONDS = 10.0
"""What an end in good order may take besides draining."""

Ready = Callable[[Mapping[str, object]], None]


@contextmanager
def one_process(name: str, data: Path, *, supervised: bool, drain: float = 0.0) -> Iterator[Ready]:
    """Be the `name` process of the data folder; gives the function to call when ready. `drain`: the seconds it may take to end.

    Raises:
        SettingsError: the folder cannot be used, or another process of that name uses it.
    """
    if supervised:
        bound = drain + _SLACK_SECONDS
        threading.Thread(target=_end_with_supervisor, args=(bound,), name="supervisor-watch", daemon=True).start()
    start_logging(name, supervised=supervised)
    wait = max(_TAKEOVER_SECONDS, drain + _SLACK_SECONDS) if supervised else 0.0
    lock = lock_folder(data, name, wait=wait)
    try:
        yield _announce if supervised else _say_ready(name)
    finally:
        lock.release()


def lock_folder(data: Path, name: str, *, wait: float = 0.0) -> ProcessLock:
    """Be the only `stepwell <name>` on a data folder, which is made when it is missing.

    Raises:
        SettingsError: the folder cannot be used, or after `wait` seconds another process still holds the lock.
    """
    lock = ProcessLock(data / ("up.lock" if name == "up" else f"{name}-process.lock"))
    try:
        data.mkdir(parents=True, exist_ok=True)
        taken = lock.acquire(wait)
    except (OSError, sqlite3.Error) as error:
        raise SettingsError(
            f"cannot use the data folder {data}: {error}; set `data` to a local folder you own"
        ) from error
    if not taken:
        raise SettingsError(
            f"another `stepwell {name}` is already running on the data folder {data}: stop it, or use another folder (--data)"
        )
    return lock


def _announce(where: Mapping[str, object]) -> None:
    """To the supervisor: one JSON line on stdout."""
    print(json.dumps({"ready": dict(where)}), flush=True)  # noqa: T201


def _say_ready(name: str) -> Ready:
    def say(where: Mapping[str, object]) -> None:
        ports = " ".join(f"{key}={value}" for key, value in where.items())
        _log.info("%s is ready %s", name, ports)

    return say


def _end_with_supervisor(bound: float) -> None:
    """Standard input is a pipe that the supervisor holds open; its end means that the supervisor is gone, also by kill -9."""
    try:
        while os.read(sys.stdin.fileno(), 4096):
            pass
    except OSError:
        pass  # no standard input: nobody supervises
    os.kill(os.getpid(), signal.SIGTERM)  # drains as on an ordinary stop
    time.sleep(bound)
    os._exit(1)
