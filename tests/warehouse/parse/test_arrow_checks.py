"""Rows of a record of steps that are plainly right, and those that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stepwell.warehouse._parse.arrow_checks import plainly_right

RIGHT: dict[str, Any] = {"step_id": "a", "policy": "p", "prompt_ids": [1, 2], "response_ids": [3], "logprobs": [-0.5]}
TYPES = {"prompt_ids": pa.list_(pa.int64()), "response_ids": pa.list_(pa.int64()), "logprobs": pa.list_(pa.float32())}


def right(*rows: dict[str, Any], types: dict[str, pa.DataType] | None = None) -> list[bool]:
    kinds = {name: pa.string() for name in RIGHT} | TYPES | (types or {})
    columns = {name: pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()}
    found: list[bool] = plainly_right(pa.RecordBatch.from_pydict(columns)).tolist()
    return found


@pytest.mark.parametrize(
    "fine",
    [
        {},
        {"step_id": "ü" * 256},
        {"step_id": None},
        {"policy": "\n"},
        {"prompt_ids": [0, 2**31 - 1]},
        {"response_ids": [], "logprobs": []},
        {"logprobs": None},
        {"logprobs": [float(np.finfo(np.float32).min)]},
    ],
    ids=str,
)
def test_a_row_that_is_right(fine: dict[str, Any]) -> None:
    assert right(RIGHT, {**RIGHT, **fine}, RIGHT) == [True, True, True]


@pytest.mark.parametrize(
    "wrong",
    [
        {"step_id": ""},
        {"step_id": "a" * 257},
        {"step_id": "a\x1f"},
        {"step_id": "\x7f"},
        {"policy": "p" * 257},
        {"prompt_ids": [1, -1]},
        {"prompt_ids": [2**31]},
        {"prompt_ids": [1, None]},
        {"prompt_ids": None},
        {"prompt_ids": []},
        {"response_ids": None},
        {"response_ids": [3, 4]},
        {"logprobs": [float("nan")]},
        {"logprobs": [float("-inf")]},
        {"logprobs": [0.5]},
        {"logprobs": []},
    ],
    ids=str,
)
def test_a_row_at_fault_is_found_alone(wrong: dict[str, Any]) -> None:
    assert right(RIGHT, {**RIGHT, **wrong}, RIGHT) == [True, False, True]


def test_numbers_of_other_widths() -> None:
    """As they are: nothing is rounded, and no bound overflows, to be compared."""
    narrow = {
        "prompt_ids": pa.list_(pa.int8()),
        "response_ids": pa.list_(pa.uint32()),
        "logprobs": pa.list_(pa.float16()),
    }
    rows = [{**RIGHT, "logprobs": [np.float16(-0.5)]}, {**RIGHT, "logprobs": [np.float16("nan")]}]
    assert right(*rows, types=narrow) == [True, False]
    wide = {"logprobs": pa.list_(pa.float64())}
    assert right(RIGHT, {**RIGHT, "logprobs": [-3.5e38]}, types=wide) == [True, False]
    assert right({**RIGHT, "response_ids": [2**31]}, types=narrow | {"logprobs": pa.list_(pa.float64())}) == [False]


def test_a_slice_is_looked_at_as_what_it_is() -> None:
    whole = pa.RecordBatch.from_pydict(
        {"step_id": pa.array(["\x00", "a", "b"]), "policy": pa.array(["", "p", "p"]), "messages": pa.array([b"[]"] * 3)}
        | {"response": pa.array([b"{}"] * 3)}
    )
    assert plainly_right(whole).tolist() == [False, True, True]
    assert plainly_right(whole.slice(1)).tolist() == [True, True]
