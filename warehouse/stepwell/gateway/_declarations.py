"""Which policy was declared when: kept in `policy.json` in the data folder, where the proxy reads it, too.

    {"format": 1, "declared": [{"name": "qwen-rl", "version": 7, "label": null, "at_ns": 1760000000000000000}, …]}

The newest stands last. Steps that come in without a word about their policy get what was declared when they began and when they ended;
that is the caller's clock against this machine's, and no more exact than the two agree.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from bisect import bisect_right
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from stepwell.errors import SpoolError
from stepwell.exchange import Declared, declared_of, stamped
from stepwell.sdk.records import Step

__all__ = ["FILE", "Declarations"]

FILE = "policy.json"
MOST = 1000
"""Declarations that are remembered; a step that began before the oldest of them is not stamped."""

_log = logging.getLogger(__name__)


class Declarations:
    """Any thread. Without a path they last as long as the process."""

    def __init__(self, path: Path | None = None, *, clock: Callable[[], int] = time.time_ns) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._all = _read(path) if path is not None else []

    def now(self) -> tuple[Declared, int] | None:
        """The policy in force, and since when (ns since the epoch)."""
        known = self._all
        return (known[-1][1], known[-1][0]) if known else None

    def at(self, at_ns: int) -> Declared | None:
        """The policy declared at a moment; None before the first."""
        known = self._all  # replaced as a whole
        place = bisect_right(known, at_ns, key=lambda one: one[0])
        return known[place - 1][1] if place else None

    def declare(self, policy: Declared) -> tuple[Declared, int]:
        """From now on `policy` is in force; the same again changes nothing. Raises SpoolError when it cannot be kept."""
        with self._lock:
            known = self._all
            if known and known[-1][1] == policy:
                return policy, known[-1][0]
            at_ns = max(self._clock(), known[-1][0] + 1 if known else 0)  # also when the clock was set back
            changed = [*known, (at_ns, policy)][-MOST:]
            if self._path is not None:
                _write(self._path, changed)
            self._all = changed
            return policy, at_ns

    def stamp(self, step: Step) -> Step:
        """`step` with what was declared when it began and ended: now, where it says neither."""
        if not self._all or step.policy_version is not None or step.policy_label is not None:
            return step
        return stamped(step, *self.between(_ns(step.started_at), _ns(step.finished_at)))

    def between(self, start_ns: int | None, end_ns: int | None) -> tuple[Declared | None, Declared | None]:
        """What was declared at two moments; one that is not known is taken to be the other, or now."""
        start = start_ns if start_ns is not None else end_ns if end_ns is not None else self._clock()
        end = end_ns if end_ns is not None else start
        return self.at(start), self.at(max(start, end))


def _ns(at: datetime | None) -> int | None:
    return None if at is None else round(at.timestamp() * 1e6) * 1000


def _read(path: Path) -> list[tuple[int, Declared]]:
    try:
        value = orjson.loads(path.read_bytes())
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be read (%s): no policy is declared", path, error)
        return []
    listed = value.get("declared") if isinstance(value, dict) else None
    known: list[tuple[int, Declared]] = []
    for one in listed if isinstance(listed, list) else ():
        policy = declared_of([one.get("name"), one.get("version"), one.get("label")]) if isinstance(one, dict) else None
        if policy is not None and type(at_ns := one.get("at_ns")) is int:
            known.append((at_ns, policy))
    return sorted(known, key=lambda one: one[0])


def _write(path: Path, known: list[tuple[int, Declared]]) -> None:
    listed: list[dict[str, Any]] = [
        {"name": one.name, "version": one.version, "label": one.label, "at_ns": at_ns} for at_ns, one in known
    ]
    scratch = path.with_suffix(".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("wb") as file:
            file.write(orjson.dumps({"format": 1, "declared": listed}))
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    except OSError as error:
        raise SpoolError(f"the policy cannot be kept in {path}: {error}") from error
