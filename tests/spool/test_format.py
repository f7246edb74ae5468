"""What an entry is."""

from __future__ import annotations

import pytest

from stepwell.spool import Entry


def test_the_size_counts_head_and_body_and_something_for_the_rest() -> None:
    assert Entry("a", "k").size == 200
    assert Entry("a", "k", b"12", b"345").size == 205


def test_entries_are_values() -> None:
    assert Entry("a", "k") == Entry("a", "k", b"", b"", None, False)
    with pytest.raises(AttributeError):
        Entry("a", "k").id = "b"  # type: ignore[misc]
