"""A message's parts, cut at its tool results."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stepwell.reader._parts import by_results, is_result

PART = st.sampled_from(["text", "tool_result", "reasoning", "image"]).map(lambda kind: {"type": kind})


@given(st.lists(PART))
def test_nothing_is_lost_or_moved_and_results_stand_alone(parts: list[dict[str, Any]]) -> None:
    pieces = list(by_results(parts))
    assert [part for piece in pieces for part in piece] == parts
    for piece in pieces:
        assert is_result(piece) == any(part["type"] == "tool_result" for part in piece)
        assert len(piece) == 1 if is_result(piece) else piece or not parts
    assert all(is_result(one) or is_result(other) for one, other in pairwise(pieces))


def test_a_message_without_parts_is_one_piece() -> None:
    assert list(by_results([])) == [[]]
