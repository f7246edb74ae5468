"""Prompts as differences: a step stores what its prompt does not share with an earlier step of its trajectory.

Turn t's prompt contains the turns before t, so storing prompts whole is quadratic. The *base* of a step is whichever recent step of the
trajectory shares the longest prefix with it (prompt and response together), which need not be its parent: this is storage, not lineage.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from stepwell.warehouse._draft import Draft, Ids

MAX_DEPTH = 64
"""A step at this depth is stored whole, so that reading one step never follows a longer chain."""

_WORTH_TOKENS = 16
"""Sharing less than this is not worth following a base for."""


@dataclass(frozen=True, slots=True)
class Base:
    """What a later step can be a difference to."""

    step_id: str
    depth: int
    tokens: Ids | None
    conversation: tuple[bytes, ...]
    tools: bytes


@dataclass(frozen=True, slots=True)
class Delta:
    """How a step is stored: `shared` counts are 0 and `base_id` None for one that stands alone."""

    base_id: str | None
    depth: int
    prompt_shared: int
    messages_shared: int
    tools: bytes | None
    """None: the same as the base's."""


def encode(draft: Draft, bases: Iterable[Base]) -> Delta:
    """The cheapest way to store `draft`, given the steps it may refer to."""
    best, tokens, messages = None, 0, 0
    for base in bases:
        if base.depth + 1 >= MAX_DEPTH:
            continue
        shared = (_shared_tokens(draft, base), _shared_messages(draft, base))
        if shared > (tokens, messages):
            best, (tokens, messages) = base, shared
    if best is None or (tokens < _WORTH_TOKENS and not messages):
        return Delta(None, 0, 0, 0, draft.tools if draft.tools != b"null" else None)
    return Delta(best.step_id, best.depth + 1, tokens, messages, None if draft.tools == best.tools else draft.tools)


def as_base(draft: Draft, delta: Delta) -> Base:
    """The step of `draft` as something later steps can refer to."""
    return Base(draft.step.step_id, delta.depth, draft.tokens, draft.conversation, draft.tools)


def common_prefix(left: Ids, right: Ids) -> int:
    """How many leading ids are equal. Compared in growing pieces, so an early difference costs little."""
    end = min(len(left), len(right))
    start, size = 0, 256
    while start < end:
        stop = min(start + size, end)
        different = left[start:stop] != right[start:stop]
        if (place := int(different.argmax())) or different[0]:
            return start + place
        start, size = stop, size * 4
    return end


def _shared_tokens(draft: Draft, base: Base) -> int:
    if draft.tokens is None or base.tokens is None:
        return 0
    return common_prefix(draft.tokens[: draft.prompt_length], base.tokens)


def _shared_messages(draft: Draft, base: Base) -> int:
    shared = 0
    for ours, theirs in zip(draft.messages, base.conversation, strict=False):  # up to the shorter of the two
        if ours != theirs:
            break
        shared += 1
    return shared


def restore_tokens(prompt_shared: int, suffix: Ids, base: Ids | None) -> Ids:
    """The whole prompt: int32 [shared + suffix]."""
    if not prompt_shared:
        return suffix
    if base is None or len(base) < prompt_shared:
        raise ValueError("the base step has fewer tokens than this step shares with it")
    return np.concatenate([base[:prompt_shared], suffix])
