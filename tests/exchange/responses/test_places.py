"""Pieces of values by their place in an item."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange import Unparseable
from stepwell.exchange._responses.places import Texts, filled


def test_places_become_objects_and_lists() -> None:
    texts = Texts()
    texts.piece(("arguments",), "{", whole=False)
    texts.piece(("arguments",), "}", whole=False)
    texts.piece(("content", 3, "text"), "second", whole=False)
    texts.part(("content", 0), {"type": "output_text", "text": "first"})
    texts.entry(("content", 0, "annotations"), {"url": "u"})
    assert texts.tree() == {
        "arguments": "{}",
        "content": [{"type": "output_text", "text": "first", "annotations": [{"url": "u"}]}, {"text": "second"}],
    }


def test_a_whole_text_replaces_its_pieces_unless_it_is_empty() -> None:
    texts = Texts()
    texts.piece(("code",), "1+", whole=False)
    texts.piece(("code",), "", whole=True)
    assert texts.tree() == {"code": "1+"}
    texts.piece(("code",), "1+1", whole=True)
    texts.piece(("code",), "", whole=True)
    assert texts.tree() == {"code": "1+1"}


def test_lists_grow_and_are_replaced() -> None:
    texts = Texts()
    texts.entries(("logprobs",), [1], whole=False)
    texts.entries(("logprobs",), [2], whole=False)
    assert texts.tree() == {"logprobs": [1, 2]}
    texts.entries(("logprobs",), [3], whole=True)
    texts.entries(("logprobs",), None, whole=True)
    assert texts.tree() == {"logprobs": [3]}


def test_a_part_is_an_object() -> None:
    with pytest.raises(Unparseable, match="content part"):
        Texts().part(("content", 0), "text")


@pytest.mark.parametrize(
    ("said", "grown", "closed", "result"),
    [
        ("a", "b", True, "a"),
        ("a", "b", False, "b"),
        ("", "b", True, "b"),
        (None, "b", True, "b"),
        ("a", "", False, "a"),
        ([], ["b"], True, ["b"]),
        (["a"], ["b", "c"], True, ["a"]),
        (["a"], ["b", "c"], False, ["b", "c"]),
        (["a", "b"], ["c"], False, ["c", "b"]),
        ({"x": 1}, {"x": 2, "y": 3}, True, {"x": 1, "y": 3}),
        ({"x": {"y": []}}, {"x": {"y": ["z"]}}, True, {"x": {"y": ["z"]}}),
        ({"x": 1}, ["y"], True, {"x": 1}),
    ],
)
def test_what_was_said_is_filled_with_what_has_grown(said: Any, grown: Any, closed: bool, result: Any) -> None:
    assert filled(said, grown, closed=closed) == result
