"""The parts of a canonical message, cut where chat templates want messages of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

Part = dict[str, Any]


def by_results(parts: Sequence[Part]) -> Iterator[list[Part]]:
    """In their order, each tool result by itself: what stands before one is said before it. A message without parts is one piece."""
    rest: list[Part] = []
    for part in parts:
        if part["type"] != "tool_result":
            rest.append(part)
            continue
        if rest:
            yield rest
            rest = []
        yield [part]
    if rest or not parts:
        yield rest


def is_result(piece: Sequence[Part]) -> bool:
    """Whether a piece of `by_results` is a tool result."""
    return bool(piece) and piece[0]["type"] == "tool_result"
