"""Keys without the system prompt, of conversations that are read back from the warehouse."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import orjson

from stepwell.exchange.canonical import compared
from stepwell.warehouse._parse.keys import LEADING, rest_keys, rest_seed

_BRANCHES = 4
"""Recent conversations that a key may go on from: sub-agents take turns."""


class Rest:
    """Keys without the system prompt, for the stored conversations of a trajectory: what one shares with a recent one is looked at once."""

    def __init__(self) -> None:
        self._recent: deque[tuple[str | None, tuple[bytes, ...], list[str]]] = deque(maxlen=_BRANCHES)

    def key(self, conversation: Sequence[bytes], model: str | None) -> str | None:
        """What `Keys.rest_conversation` is for these messages, the answer last."""
        leading = next((n for n, message in enumerate(conversation) if not _leads(message)), len(conversation))
        said = tuple(conversation[leading:])
        if not leading or len(said) < 2:
            return None
        known: list[str] = []
        for other_model, other, keys in self._recent:
            if other_model == model and (shared := _same_beginning(said, other)) > len(known):
                known = keys[:shared]
        forms = [compared(orjson.loads(message)) for message in said[len(known) :]]
        known += rest_keys(known[-1] if known else rest_seed(model), forms)
        self._recent.append((model, said, known))
        return known[-1]


def _leads(message: bytes) -> bool:
    return orjson.loads(message)["role"] in LEADING


def _same_beginning(one: tuple[bytes, ...], other: tuple[bytes, ...]) -> int:
    """How many messages they begin with alike. Most are the same objects: comparing so many at once costs next to nothing."""
    same, differs = 0, min(len(one), len(other))
    if one[:differs] == other[:differs]:
        return differs
    while differs - same > 1:
        middle = (same + differs) // 2
        if one[same:middle] == other[same:middle]:
            same = middle
        else:
            differs = middle
    return same
