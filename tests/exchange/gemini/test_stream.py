"""The objects of a stream: in events, in an array, cut anywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell.exchange import Unparseable
from stepwell.exchange._gemini.stream import cut_array, elements, event_objects

unhurried = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])

anything = st.recursive(
    st.none() | st.integers(-9, 9) | st.text(alphabet='a"\\{}[],: é\n', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
objects = st.lists(st.dictionaries(st.text(alphabet='a"\\{}[]', max_size=3), anything, max_size=3), max_size=4)


@unhurried
@given(objects, st.sampled_from([None, 1]), st.data())
def test_an_array_cut_anywhere_gives_the_elements_that_had_come(
    made: list[Any], indent: int | None, data: st.DataObject
) -> None:
    body = json.dumps(made, ensure_ascii=False, indent=indent).encode()
    ends = [end for end in range(len(body) + 1) if complete(body[:end], made)]
    cut = data.draw(st.integers(0, len(body)))
    found = list(cut_array(body[:cut]))
    assert found == made[: len(found)]
    assert len(found) == max((complete(body[:end], made) for end in ends if end <= cut), default=0)


def complete(start: bytes, made: list[Any]) -> int:
    """How many elements are whole in the beginning of an array: as many as make it one once it is closed."""
    text = start.decode(errors="ignore").strip().removesuffix(",").removesuffix("]")
    try:
        value = json.loads(text + "]")
    except json.JSONDecodeError:
        return 0
    return len(value) if value == made[: len(value)] else 0


def test_strings_hide_brackets() -> None:
    body = rb'[{"a": "}]\"}"}, {"b": "\\"}, ["c"], {"d": "cut \" ]}'
    assert list(elements(body)) == [rb'{"a": "}]\"}"}', rb'{"b": "\\"}', rb'["c"]']
    assert list(elements(b'[{"a": 1}] [{"b": 2}]')) == [b'{"a": 1}']
    assert list(elements(b'[{"a": "\\')) == list(elements(b"]")) == list(elements(b"")) == []


def test_a_long_cut_string_of_quotes_is_read_once() -> None:
    # Looked at again from every quote, this would take hours.
    assert list(elements(b'[{"a": "' + b'\\"' * 1_000_000)) == []
    assert len(list(elements(b"[" + b'{"a": "b"},' * 100_000))) == 100_000


def test_an_element_that_is_no_json_is_where_it_stops() -> None:
    assert list(cut_array(b'[{"a": 1}, {b}, {"c": 1}')) == [{"a": 1}]


def events(body: bytes, whole: bool = True) -> list[Any]:
    return list(event_objects(body, whole))


def test_events() -> None:
    assert events(b'data: {"a": 1}\r\n\r\n:hi\r\n\r\ndata: {"b":\r\ndata: 2}\r\n\r\ndata: [DONE]\r\n\r\n') == [
        {"a": 1},
        {"b": 2},
    ]
    assert events(b'data: {"a": 1}\n\ndata: {"b"') == [{"a": 1}]  # its last event never ended
    assert events(b'data: {"a": 1}\n\ndata: {"b"\n\n', whole=False) == [{"a": 1}]
    with pytest.raises(Unparseable, match="no JSON"):
        events(b'data: {"a": 1}\n\ndata: {"b"\n\n')


def test_errors_in_a_stream() -> None:
    assert events(b'event: error\ndata: {"code": 1}\n\n') == [{"error": {"code": 1}}]
    assert events(b'event: error\ndata: {"error": {"code": 1}}\n\n') == [{"error": {"code": 1}}]
    assert events(b"event: error\ndata: overloaded\n\n") == [{"error": "overloaded"}]
    assert events(b"event: error\ndata: overl") == []
    bare = b'data: {"a": 1}\r\n\r\n{\n  "error": {\n    "code": 503,\n    "message": "a\\nb"\n  }\n}\n'
    assert events(bare) == [{"a": 1}, {"error": {"code": 503, "message": "a\nb"}}]
    assert events(bare[:-4]) == [{"a": 1}]
    assert events(b'data: {"a": 1}\n\n{"x": 1}') == [{"a": 1}]
