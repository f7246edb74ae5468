"""What an answer repeats of its request is kept once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange._responses.echo import echo, unechoed


def test_what_is_the_same_is_only_named() -> None:
    own, echoed = unechoed(
        {"instructions": "x", "store": False, "top_p": 1.0, "id": "r"}, {"instructions": "x", "store": False}
    )
    assert own == {"top_p": 1.0, "id": "r"}
    assert echoed == {"instructions": True, "store": True}


def test_of_tools_with_their_defaults_only_the_defaults_are_kept() -> None:
    tool = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
    said = {**tool, "strict": True, "description": None}
    own, echoed = unechoed({"tools": [said, tool]}, {"tools": [tool, tool]})
    assert own == {}
    assert echoed == {"tools": [{"strict": [True]}, True]}
    assert echo([tool, tool], echoed["tools"]) == [{**tool, "strict": True}, tool]


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        (1, 1.0),
        (True, 1),
        ("a", "b"),
        ([1], [1, 2]),
        ({"a": 1}, {"b": 1}),
        ({"a": {"b": 1}}, {"a": {"b": 2}}),
        ([], []),
        (None, "x"),
    ],
)
def test_what_differs_is_the_answers_own(asked: Any, answered: Any) -> None:
    assert unechoed({"f": answered}, {"f": asked}) == ({"f": answered}, {})


def test_the_input_is_never_taken_from_the_request() -> None:
    assert unechoed({"input": "x"}, {"input": "x"}) == ({"input": "x"}, {})


def test_absurd_nesting_is_the_answers_own() -> None:
    deep: Any = "x"
    for _ in range(3000):
        deep = {"a": deep}
    own, echoed = unechoed({"f": deep}, {"f": {"a": deep}})
    assert list(own) == ["f"]
    assert echoed == {}


VALUES = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y", "z"]), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(VALUES, VALUES)
def test_the_answers_value_comes_back(asked: Any, answered: Any) -> None:
    for said in (answered, asked, {**asked, "new": answered} if isinstance(asked, dict) else answered):
        own, echoed = unechoed({"f": said}, {"f": asked})
        found = echo(asked, echoed["f"]) if echoed else own["f"]
        assert json.dumps(found, sort_keys=True) == json.dumps(said, sort_keys=True)
