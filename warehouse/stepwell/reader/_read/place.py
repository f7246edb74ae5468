"""Where a reader is in its epochs, and whether that means the same to another one."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._select.rules import Verdict


class Place:
    """The epoch, and the optimizer step of it that comes next."""

    def __init__(self, asked: Sequence[object], verdict: Verdict) -> None:
        """`asked`, `verdict`: all that decides which steps are in which optimizer step, and what their tokens are."""
        trained = verdict.trained
        digest = hashlib.sha256(repr(tuple(asked)).encode())
        digest.update(np.packbits(trained).tobytes() + verdict.kept[trained].tobytes())
        self._identity = digest.hexdigest()
        self.epoch = self.next = 0

    def state_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"epoch": self.epoch, "next": self.next, "of": self._identity}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Raises InvalidRecord for a state of another selection, or of settings that give other optimizer steps."""
        if state.get("of") != self._identity:
            raise InvalidRecord(
                "of", "the state is of another selection, seed or number of groups: make the reader as it was made then"
            )
        self.epoch, self.next = int(state["epoch"]), int(state["next"])
