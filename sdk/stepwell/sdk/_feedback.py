"""Feedback's fields, checked in the caller's thread and made an item to send."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.sdk._fork import undivided
from stepwell.sdk._item import Item

__all__ = ["feedback_item"]


def feedback_item(fields: Mapping[str, Any]) -> Item:
    """The item of a feedback with these fields, by their long names. Raises InvalidRecord."""
    with undivided:
        from stepwell.sdk.records import Feedback, checked, encoded

        record = checked(Feedback, fields)
        return Item("feedback", record.feedback_id, encoded(record))
