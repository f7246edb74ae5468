"""Free-form values: which of them any strict JSON parser gives back as they were."""

from __future__ import annotations

import enum
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.sdk import _strict
from stepwell.sdk._strict import MAX_DEPTH, strict_json


class Answer(enum.IntEnum):
    MANY = 42


SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63) - 1, 2**64)
    | st.floats()
    | st.text(st.characters(exclude_categories=()), max_size=8)
    | st.sampled_from([Answer.MANY, np.float64(0.5), b"bytes", 2**200])
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(st.characters(exclude_categories=()), max_size=5) | st.integers(), inner, max_size=4)
    ),
)


def is_strict(value: object) -> bool:
    try:
        return strict_json(value) is value
    except ValueError:
        return False


def is_strict_when_written(value: object) -> bool:
    """The rule, by what `json` writes and reads back."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        fits = len(text.encode()) <= _strict.MAX_JSON_BYTES
    except (TypeError, ValueError, RecursionError):
        return False
    read: list[Any] = [json.loads(text)]
    while fits and read:
        item = read.pop()
        fits = type(item) is not int or -(2**63) <= item < 2**64
        read.extend(item if isinstance(item, list) else item.values() if isinstance(item, dict) else ())
    return fits


def nested(depth: int, kind: str, innermost: Any) -> Any:
    value = innermost
    for _ in range(depth):
        value = [0, value] if kind == "list" else {"a": value, "b": "c"}
    return value


@settings(deadline=None, max_examples=60)
@given(ANYTHING)
def test_what_can_be_written_strictly_is_taken_as_it_is(value: Any) -> None:
    assert is_strict(value) == is_strict_when_written(value)


@settings(deadline=None, max_examples=60)
@given(ANYTHING, st.integers(1, 120))
def test_the_limit_of_size_is_that_of_what_is_written(value: Any, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_strict, "MAX_JSON_BYTES", most)
        assert is_strict(value) == (value is None or is_strict_when_written(value))


@pytest.mark.parametrize(
    "one", ["\x00", "\x00" * 60, '"', "é" * 200, "😀", -1.2345678901234567e-308, -(2**63), [], {}, False]
)
def test_the_limit_of_size_holds_for_what_grows_when_it_is_written(one: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_strict, "MAX_JSON_BYTES", 3000)
        for make in (lambda n: [one] * n, lambda n: {str(place): one for place in range(n)}):
            size = next(n for n in range(3000) if not is_strict_when_written(make(n)))
            assert is_strict(make(size - 1)) and not is_strict(make(size))


@pytest.mark.parametrize("kind", ["list", "object"])
@pytest.mark.parametrize("innermost", [1, "text"])
def test_the_limit_of_depth(kind: str, innermost: Any) -> None:
    strict_json(nested(MAX_DEPTH, kind, innermost))
    for too_deep in (nested(MAX_DEPTH, kind, []), nested(MAX_DEPTH, kind, {}), nested(MAX_DEPTH + 1, kind, innermost)):
        with pytest.raises(ValueError, match="nested more than 100 levels"):
            strict_json(too_deep)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (float("nan"), "not strict JSON"),
        ({"a": [float("-inf")]}, "not strict JSON"),
        ({"a": "\ud83d"}, "half a surrogate pair"),
        ({"\ude00": 1}, "half a surrogate pair"),
        (["\ud83d", "\ude00"], "half a surrogate pair"),
        ([2**64], "more than 64 bits"),
        ([*range(100), 2**64], "more than 64 bits"),
        ([-(2**63) - 1, *range(100)], "more than 64 bits"),
        ([*range(100), float("nan")], "not strict JSON"),
        ({(1, 2): 3}, "not strict JSON"),
        ({"a": {1}}, "not strict JSON"),
    ],
)
def test_what_is_wrong_is_told(wrong: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        strict_json(wrong)


def test_a_list_that_holds_itself_many_times_is_refused_before_it_fills_the_memory() -> None:
    wide: list[Any] = []
    wide.extend([wide] * 1000)
    loop: dict[str, Any] = {}
    loop |= {str(place): loop for place in range(1000)}
    for value in (wide, loop):
        with pytest.raises(ValueError, match="not strict JSON"):
            strict_json(value)


def test_a_conversation_is_not_written_to_find_out_that_it_is_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(json, "dumps")
    part = {
        "type": "text",
        "text": "Grüße 😀\n",
        "extra": {"ids": [*range(200)], "p": 0.5, "cached": False, "by": None},
    }
    conversation = [{"role": "user", "content": [part, part]}] * 20
    assert strict_json(conversation) is conversation
