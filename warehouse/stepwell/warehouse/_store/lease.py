"""Who may commit: one process of all that write a warehouse, and another one within seconds when it is gone.

A term is an object that only one can create. Its holder writes a second one, the beat, again and again; who sees the same beat for too
long, by a clock of its own, begins the next term. No clock is compared with another machine's. A holder that was paused and comes
back may believe in its term for a moment: its commits conflict (see `_tables/ledger`), so the lease is for speed, not for safety.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

import orjson

from stepwell.warehouse._store.objects import Objects

FOLDER = "_lease"
BEAT = 1.0
"""Seconds between beats."""
PATIENCE = 5.0
"""Seconds without a beat after which a holder is taken for gone."""


class Lease:
    """One process's view of the lease. `hold` is asked before each piece of work; one thread."""

    def __init__(
        self,
        objects: Objects,
        owner: str,
        *,
        beat: float = BEAT,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._objects = objects
        self._owner = owner
        self._name = orjson.dumps({"owner": owner, "host": socket.gethostname()})
        self._beat, self._patience, self._clock = beat, patience, clock
        self._term: int | None = None
        self._count = 0
        self._beaten = 0.0
        self._seen: tuple[int, str | None] | None = None
        self._since = 0.0
        self._stranger = 0
        """The newest term of which it is known that its holder is somebody else."""

    @property
    def held(self) -> bool:
        """Whether it was ours when `hold` looked last."""
        return self._term is not None

    def hold(self) -> bool:
        """Whether this process may commit: keeps the lease that it has, or takes one that nobody keeps.

        An owner is one process at a time; one that starts again goes on with its own lease at once.

        Raises:
            StoreError: the store failed; nothing is known then.
        """
        now = self._clock()
        if self._term is not None and now - self._beaten < self._beat:
            return True
        found = _found(self._objects)
        newest = max((term for term, kind in found if not kind), default=0)
        if newest == self._term:
            self._keep(now)
            return True
        self._term = None
        seen = (newest, found.get((newest, "beat")))
        if seen != self._seen:
            self._seen, self._since = seen, now
        free = not newest or (newest, "ended") in found or now - self._since >= self._patience
        if not free and not self._was_ours(newest):
            return False
        if not self._objects.create(_key(newest + 1), self._name):
            return False
        self._term = newest + 1
        self._keep(now)
        self._objects.delete(_key(*old) for old in found)
        return True

    def release(self) -> None:
        """Let another process have it at once."""
        if self._term is not None:
            self._objects.put(_key(self._term, "ended"), b"")
            self._term = None

    def _keep(self, now: float) -> None:
        self._count += 1
        self._objects.put(_key(self._term or 0, "beat"), b"%d" % self._count)
        self._beaten = now

    def _was_ours(self, term: int) -> bool:
        """Whether the holder is this owner as it was before it was started again."""
        if self._stranger < term and self._objects.get(_key(term)) != self._name:
            self._stranger = term
        return self._stranger < term


def _key(term: int, kind: str = "") -> str:
    return f"{FOLDER}/{term:012d}{'.' if kind else ''}{kind}"


def _found(objects: Objects) -> dict[tuple[int, str], str]:
    """Tags of what there is, by term and kind: the term itself, its newest beat, the word that its holder ended it."""
    found = {}
    for key, tag in objects.listed(FOLDER):
        number, _, kind = key.removeprefix(f"{FOLDER}/").partition(".")
        if number.isdigit():
            found[int(number), kind] = tag
    return found


def sign_of_life(objects: Objects) -> tuple[int, str | None] | None:
    """What changes with every beat of who has the lease; None where nobody has it. Of one that died it stays as it is."""
    found = _found(objects)
    newest = max((term for term, kind in found if not kind), default=0)
    return None if not newest or (newest, "ended") in found else (newest, found.get((newest, "beat")))
