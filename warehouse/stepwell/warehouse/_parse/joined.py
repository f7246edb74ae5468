"""Prompts and answers as arrays, those of a conversation in one buffer: a turn costs what is new in it.

A prompt mostly begins with an earlier one and its answer. It is compared with them while it is near the processor, and what follows is put
behind them: the arrays of the turns before are views of the same buffer, and stay what they were. Nothing depends on it but time and room.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]

_BRANCHES = 4
"""Conversations of one trajectory that are gone on with: its sub-agents take turns."""


@dataclass(slots=True)
class _Buffer:
    ids: Ids
    used: int
    """What is behind them is room."""


class Joined:
    """The last conversations of trajectories, the least recently used ones forgotten beyond `max_bytes`."""

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._max_bytes = max_bytes
        self._known: OrderedDict[Hashable, list[_Buffer]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def join(self, whose: Hashable, prompt: NDArray[Any], response: NDArray[Any]) -> Ids:
        """int32 [prompt + response], of whole numbers that fit; not to be written to. `whose`: None for nobody's."""
        for place, buffer in enumerate(self._known.get(whose, ())):
            if _begins(buffer, prompt):
                return self._keep(whose, place, buffer, prompt, response)
        ids = np.concatenate((prompt, response), dtype=np.int32, casting="unsafe")
        if whose is not None and len(ids):
            self._know(whose, _Buffer(ids, len(ids)))
        return ids

    def _keep(self, whose: Hashable, place: int, buffer: _Buffer, prompt: NDArray[Any], response: NDArray[Any]) -> Ids:
        used, middle, end = buffer.used, len(prompt), len(prompt) + len(response)
        if end > len(buffer.ids):
            wider = np.empty(end + end // 2, np.int32)
            wider[:used] = buffer.ids[:used]
            self._bytes += wider.nbytes - buffer.ids.nbytes
            buffer.ids = wider
        ids = buffer.ids
        ids[used:middle], ids[middle:end] = prompt[used:], response
        buffer.used = end
        if place:
            branches = self._known[whose]
            branches.insert(0, branches.pop(place))
        self._known.move_to_end(whose)
        self._shrink()
        return ids[:end]

    def _know(self, whose: Hashable, buffer: _Buffer) -> None:
        branches = self._known.setdefault(whose, [])
        branches.insert(0, buffer)
        self._bytes += buffer.ids.nbytes
        if len(branches) > _BRANCHES:
            self._bytes -= branches.pop().ids.nbytes
        self._known.move_to_end(whose)
        self._shrink()

    def _shrink(self) -> None:
        while self._bytes > self._max_bytes:
            _, oldest = self._known.popitem(last=False)
            self._bytes -= sum(one.ids.nbytes for one in oldest)


def _begins(buffer: _Buffer, prompt: NDArray[Any]) -> bool:
    used, ids = buffer.used, buffer.ids
    if used > len(prompt) or prompt[used - 1] != ids[used - 1]:  # one number tells most that differ
        return False
    return bool((prompt[:used] == ids[:used]).all())
