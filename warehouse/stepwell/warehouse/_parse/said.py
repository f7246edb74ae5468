"""What producers say in forms of their own, as columns that can be filtered by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.exchange import normalised

_TAGS = 64
_TAG_LENGTH = 200
_COUNTS = {
    "input_tokens": "input_tokens",
    "cached_input_tokens": "cached_tokens",
    "output_tokens": "output_tokens",
    "reasoning_tokens": "reasoning_tokens",
}
"""By column, what `normalised` calls it."""


def tags_of(metadata: Mapping[str, Any] | None) -> list[str] | None:
    """`metadata["tags"]` where that is a list of at most 64 strings of at most 200 characters each, without repetitions; else None."""
    tags = (metadata or {}).get("tags")
    if not isinstance(tags, list) or not 0 < len(tags) <= _TAGS:
        return None
    whole = all(isinstance(tag, str) and 0 < len(tag) <= _TAG_LENGTH for tag in tags)
    return list(dict.fromkeys(tags)) if whole else None


def token_counts(dialect: str | None, usage: Mapping[str, Any] | None) -> dict[str, int | None]:
    """The columns that say what a call cost, in the same words for every dialect; null where the provider does not say."""
    if not usage:
        return dict.fromkeys(_COUNTS)
    counts = normalised(dialect, usage)
    said = {column: counts.get(name) for column, name in _COUNTS.items()}
    return {column: count if count is not None and 0 <= count < 2**63 else None for column, count in said.items()}


def declared_version(said: int | None, label: str | None, declared: int | None) -> int | None:
    """A step's policy version: what the engine said, else what was declared for its trajectory.

    An answer that the engine says is of several versions (its label is `first..last`) is of none, whatever was declared.
    """
    return declared if said is None and ".." not in (label or "") else said
