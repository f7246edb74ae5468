"""A thread of work beside the commits: by whoever has the lease, again and again, whatever went wrong the last time."""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

from stepwell.errors import CommitConflict, StoreError

_log = logging.getLogger(__name__)


class Chore(ABC):
    """Takes a turn every so many seconds until it is stopped, while `held` says that it is this process's to do."""

    def __init__(self, name: str, held: Callable[[], bool], every: float, share: float = 0) -> None:
        """A turn is followed by `share` times the time that it took, if that is longer than `every`."""
        self._name, self._held, self._every, self._share = name, held, every, share
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """End after the turn in hand. One that takes longer is given up: what it did not commit has changed nothing."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)

    @abstractmethod
    def turn(self) -> object:
        """What is to be done once. Raises StoreError when the store fails, CommitConflict when others came first."""

    def _run(self) -> None:
        pause = self._every
        while not self._stop.wait(pause):
            pause = self._every
            if not self._held():
                continue
            begun = time.monotonic()
            try:
                self.turn()
            except CommitConflict as error:
                _log.info("%s; %s: again later", error, self._name)
            except StoreError as error:
                _log.warning("%s; %s: again later", error, self._name)
            except Exception:  # noqa: BLE001 — the boundary of the thread: commits and queries go on, and so is this to
                _log.exception("%s failed, and is tried again later", self._name)
            pause = max(self._every, self._share * (time.monotonic() - begun))
