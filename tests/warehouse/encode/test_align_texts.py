"""Messages found in another conversation by their bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.warehouse._encode.align import Run
from stepwell.warehouse._encode.align_texts import aligned_texts, common_beginning

TALK = st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=12)


@given(TALK, TALK)
def test_runs_are_equal_and_nothing_that_is_there_is_own(messages: list[bytes], base: list[bytes]) -> None:
    covered: set[int] = set()
    for at, source, count in aligned_texts(messages, base):
        assert messages[at : at + count] == base[source : source + count]
        assert count
        assert at > max(covered, default=-1)
        covered.update(range(at, at + count))
    if len(base) > common_beginning(messages, base):  # what lies behind a whole base is new
        assert {messages[place] for place in range(len(messages)) if place not in covered}.isdisjoint(base)


@pytest.mark.parametrize(
    ("messages", "base", "runs"),
    [
        (b"abcd", b"abc", [(0, 0, 3)]),
        (b"xbcd", b"abc", [(1, 1, 2)]),
        (b"axcd", b"abc", [(0, 0, 1), (2, 2, 1)]),
        (b"cab", b"abc", [(0, 2, 1), (1, 0, 2)]),
        (b"auoavoaw", b"auoavoax", [(0, 0, 7)]),
        (b"xoaob", b"yoaoc", [(1, 1, 3)]),
        (b"xaxb", b"aabab", [(1, 0, 1), (3, 2, 1)]),
        (b"xyokzokw", b"xyokqokw", [(0, 0, 4), (5, 5, 3)]),
        (b"", b"a", []),
        (b"a", b"", []),
    ],
)
def test_what_was_rewritten_costs_itself(messages: bytes, base: bytes, runs: list[Run]) -> None:
    ours, theirs = ([bytes([letter]) for letter in text] for text in (messages, base))
    assert aligned_texts(ours, theirs) == runs
