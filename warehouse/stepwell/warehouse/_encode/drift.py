"""How a step's tokens relate to its parent's: they go on exactly, or drift from some position on.

Drift decides what a trainer can merge, never who continues whom.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from stepwell.warehouse._encode.align import common_prefix
from stepwell.warehouse._encode.delta import Base, Delta
from stepwell.warehouse._parse.draft import Draft

Cause = Literal["retokenised", "template", "history", "truncated", "unknown", "parent not in memory"]
"""Why the tokens of a prompt do not begin with its parent's prompt and response.

- `retokenised`: the same messages, other ids from somewhere in the parent's response on;
- `template`: the same messages, other ids inside the parent's prompt already;
- `history`: the messages themselves were changed, compacted or left out;
- `truncated`: the prompt ends inside what the parent had;
- `unknown`: tokens without messages, which could tell what was meant;
- `parent not in memory`: nothing was compared, for the parent is older than what ingest keeps at hand, or has not arrived.
"""


class Drift(NamedTuple):
    """`at`: the first position of the prompt that differs, None where nothing was compared."""

    at: int | None
    cause: Cause


def drift_of(draft: Draft, parent_id: str | None, bases: Iterable[Base], delta: Delta) -> Drift | None:
    """None: exact, or there is nothing to compare (no parent, or one of both without tokens)."""
    if parent_id is None or draft.tokens is None:
        return None
    parent = next((base for base in bases if base.step_id == parent_id), None)
    if parent is None:
        return Drift(None, "parent not in memory")
    if parent.tokens is None or goes_on(delta, parent):
        return None
    shared = common_prefix(draft.tokens[: draft.prompt_length], parent.tokens)
    return None if shared == len(parent.tokens) else Drift(shared, _cause(draft, parent, shared))


def goes_on(delta: Delta, parent: Base) -> bool:
    """Whether encoding has found out already that the tokens go on from all of the parent's."""
    if parent.tokens is None or delta.base_id != parent.step_id or delta.prompt_ops[:1] != (0,):
        return False
    return delta.prompt_ops[1] >= len(parent.tokens)


def _cause(draft: Draft, parent: Base, shared: int) -> Cause:
    if shared == draft.prompt_length:
        return "truncated"
    if not draft.messages or not parent.conversation:
        return "unknown"
    same = draft.messages[: len(parent.conversation)] == parent.conversation or parent.key in draft.prompt_keys
    if not same:
        return "history"
    return "retokenised" if shared >= parent.prompt_length else "template"
