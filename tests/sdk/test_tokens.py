from __future__ import annotations

import json
import sys
from array import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.sdk._item import Item
from stepwell.sdk._tokens import _MAX, packed
from stepwell.sdk.records import MAX_IDS

Fields = dict[str, Any]


def written(fields: Fields) -> Fields | None:
    """What would be sent of these fields; None where they are looked at one by one."""
    parts = packed(fields)
    if parts is None:
        return None
    found: Fields = json.loads(Item("step", "s", b'{"step_id":"s"}', parts).whole())
    assert found.pop("step_id") == "s"
    return found


IDS: list[Any] = [
    [1, 2, 2**31 - 1],
    (1, 2, 2**31 - 1),
    *(np.array([1, 2, 2**31 - 1], kind) for kind in ("i4", "u4", "i8", "u8")),
    *(array(code, [1, 2, 2**31 - 1]) for code in "iIlLqQ"),
    np.array([1, 9, 2, 9, 2**31 - 1])[::2],
]


@pytest.mark.parametrize("ids", IDS, ids=lambda ids: f"{type(ids).__name__}-{getattr(ids, 'dtype', '')}")
def test_ids_in_every_form(ids: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = {"prompt_ids": [1, 2, 2**31 - 1], "response_ids": [7]}
    assert written({"prompt_ids": ids, "response_ids": [7]}) == expected
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert written({"prompt_ids": ids, "response_ids": [7]}) == expected


@pytest.mark.parametrize(
    "logprobs", [[-0.5, 0.0], (-0.5, 0.0), np.array([-0.5, 0.0]), np.array([-0.5, 0], "f4"), array("f", [-0.5, 0])]
)
def test_logprobs_in_every_form(logprobs: Any) -> None:
    found = written({"prompt_ids": [1], "response_ids": [2, 3], "logprobs": logprobs})
    assert found == {"prompt_ids": [1], "response_ids": [2, 3], "logprobs": [-0.5, 0.0]}


@pytest.mark.parametrize(
    "ids",
    [
        [],
        [True],
        [1.0],
        [-1],
        [2**31],
        [2**63],
        ["1"],
        "12",
        b"12",
        np.array([-1]),
        np.array([2**31]),
        np.array([2**32]),
        np.array([1.0]),
        np.array([True]),
        np.array([[1]]),
        np.array([1], ">i4"),
        array("q", [2**40]),
        array("h", [1]),
        np.zeros(0, int),
        {1},
        7,
    ],
)
def test_ids_that_are_not_plainly_right(ids: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert packed({"prompt_ids": ids, "response_ids": [1]}) is None
    assert packed({"prompt_ids": [1], "response_ids": ids}) is None
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert packed({"prompt_ids": ids, "response_ids": [1]}) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 0.5, 1e-2, 1e38, -1e300 * 1e10])
@pytest.mark.parametrize("form", [list, np.array, lambda xs: np.array(xs, "f4"), lambda xs: array("d", xs)])
@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
def test_what_is_no_logprob_is_looked_at(value: float, form: Any) -> None:
    assert packed({"prompt_ids": [1], "response_ids": [2, 3], "logprobs": form([-1.0, value])}) is None


@pytest.mark.parametrize("value", [False, True, np.False_, "-1", b"-1", None])
def test_what_is_no_number_is_looked_at(value: Any) -> None:
    for form in (list, tuple):
        assert packed({"prompt_ids": [1], "response_ids": [2, 3], "logprobs": form([-1.0, value])}) is None
        assert packed({"prompt_ids": form([1, value]), "response_ids": [2]}) is None


def test_the_bound_is_that_of_the_records() -> None:
    assert _MAX == MAX_IDS
    assert packed({"prompt_ids": np.zeros(MAX_IDS + 1, int), "response_ids": [1]}) is None


def test_lengths_that_do_not_agree_are_looked_at() -> None:
    for logprobs in ([-1.0], np.array([-1.0] * 3), array("f", [-1.0] * 4), []):
        assert packed({"prompt_ids": [1], "response_ids": [2, 3], "logprobs": logprobs}) is None
    assert packed({"prompt_ids": [1]}) is None
    assert packed({"response_ids": [1]}) is None


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-5, 2**33), min_size=1, max_size=8),
    st.lists(st.floats(width=32), min_size=1, max_size=8),
)
def test_nothing_wrong_is_ever_taken_as_right(ids: list[int], floats: list[float]) -> None:
    for some in (ids, np.array(ids)):
        found = written({"prompt_ids": some, "response_ids": some})
        assert (found is not None) == all(0 <= id < 2**31 for id in ids)
        assert found is None or found["prompt_ids"] == ids
    response = list(range(len(floats)))
    for numbers in (floats, np.array(floats, "f4"), np.array(floats, "f8")):
        found = written({"prompt_ids": [1], "response_ids": response, "logprobs": numbers})
        if found is not None:
            assert found["logprobs"] == floats and all(number <= 1e-3 for number in floats)
        elif all(-1e30 < number <= 0 for number in floats):
            raise AssertionError("these are plainly right")
