"""Which messages of a conversation stand in another, by their bytes."""

from __future__ import annotations

from collections.abc import Sequence

from stepwell.warehouse._encode.align import Run


def common_beginning(left: Sequence[bytes], right: Sequence[bytes]) -> int:
    """How many leading messages are equal."""
    end = min(len(left), len(right))
    if left[:end] == right[:end]:  # in C, and at once where they are the same objects
        return end
    return next(place for place in range(end) if left[place] != right[place])


def aligned_texts(messages: Sequence[bytes], base: Sequence[bytes]) -> list[Run]:
    """The runs of `messages` that stand in `base`, in order: one that was rewritten in the middle costs itself only."""
    shared = common_beginning(messages, base)
    runs: list[Run] = [(0, 0, shared)] if shared else []
    if shared == len(base) or shared == len(messages):
        return runs
    places: dict[bytes, int] = {}
    for place in range(len(base) - 1, -1, -1):
        places[base[place]] = place
    at, behind = shared, shared
    while at < len(messages):
        # Where the last run ended comes first, or the message after it: of equal messages that is the one that was meant.
        near = next((place for place in (behind, behind + 1) if base[place : place + 1] == messages[at : at + 1]), None)
        source = near if near is not None else places.get(messages[at])
        if source is None:
            at += 1
            continue
        start = at
        while at < len(messages) and at - start + source < len(base) and messages[at] == base[at - start + source]:
            at += 1
        runs.append((start, source, at - start))
        behind = source + at - start
    return runs
