"""An answer that counts for a while, so that it is not worked out for each who asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

__all__ = ["Kept"]

_KEPT = 5.0
"""Seconds for which an answer counts, at least; one that took long counts for twenty times as long."""
_TIMES = 20.0


class Kept:
    """The last answer, for a while; one at a time works out the next."""

    def __init__(self, make: Callable[[], dict[str, Any]], clock: Callable[[], float] = time.monotonic) -> None:
        self._make, self._clock = make, clock
        self._lock = threading.Lock()
        self._until = 0.0
        self._value: dict[str, Any] | None = None

    def get(self) -> dict[str, Any]:
        """While the next answer is worked out, the last one is given: nobody waits but the first."""
        known = self._value
        if not self._lock.acquire(blocking=known is None):
            assert known is not None
            return known
        try:
            begun = self._clock()
            if self._value is None or begun >= self._until:
                self._value = self._make()
                done = self._clock()
                self._until = done + max(_KEPT, _TIMES * (done - begun))
            return self._value
        finally:
            self._lock.release()
