"""A step's fields, checked in the caller's thread and made an item to send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.sdk._answers import dumped
from stepwell.sdk._fork import undivided
from stepwell.sdk._item import Item
from stepwell.sdk._tokens import NAMES, packed

__all__ = ["step_item"]

_TEXT = frozenset({"messages", "response", "usage"})
"""Where programs have what their provider's SDK gave them at hand."""


def step_item(fields: Mapping[str, Any]) -> Item:
    """The item of a step with these fields, by their long names. Raises InvalidRecord."""
    if not _TEXT.isdisjoint(fields):
        fields = {name: _plain(value) if name in _TEXT else value for name, value in fields.items()}
    with undivided:
        from stepwell.sdk.records import STAND_IN, Step, checked, encoded, something_was_seen

        something_was_seen(fields)
        if (tokens := packed(fields)) is None:
            record = checked(Step, fields)
            return Item("step", record.step_id, encoded(record))
        # The lists are right, so the check of the other fields is given the shortest there is in their place. It is left out by
        # hand: to have it left out takes longer than all else.
        record = checked(Step, {**fields, **dict.fromkeys(NAMES), "prompt_ids": STAND_IN, "response_ids": STAND_IN})
        vars(record).update(dict.fromkeys(NAMES))
        return Item("step", record.step_id, encoded(record), tokens)


def _plain(value: Any) -> Any:
    """Objects of an SDK as what they were on the wire, also in a list. What is none of these is left to the check."""
    if isinstance(value, list):
        return [item if isinstance(item, dict) else _plain(item) for item in value]
    if value is None or isinstance(value, dict | str):
        return value
    return value if (found := dumped(value)) is None else found
