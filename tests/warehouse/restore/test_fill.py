"""Prompts of some rows: as when all are restored, and only what they need is copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.warehouse._restore import fill as _fill
from stepwell.warehouse._restore.whole import needed, restore, restore_batches, restore_rows, restore_some
from stepwell.warehouse._tables.schema import STEPS

Row = dict[str, Any]
DEPTH = 1023


def stored(rows: list[Row]) -> pa.Table:
    full = [{"trajectory_id": "t", "base_depth": place, **row} for place, row in enumerate(rows)]
    names = ["trajectory_id", *needed(["prompt_ids"])]
    return pa.Table.from_pylist(full, schema=pa.schema([STEPS.schema.field(name) for name in names]))


def chain(depth: int) -> pa.Table:
    """Each prompt is that of the step before, with its response and two more ids."""
    rows, length = list[Row](), 0
    for turn in range(depth):
        ops = [0, length + 1, 2] if turn else []
        length += 3 if turn else 2
        base = f"s{turn - 1}" if turn else None
        own = {"prompt_ops": ops, "prompt_suffix": [10 * turn, 10 * turn + 1], "response_ids": [10 * turn + 2]}
        rows.append({"step_id": f"s{turn}", "base_id": base, "prompt_length": length, **own})
    return stored(rows)


@st.composite
def trees(draw: st.DrawFn) -> tuple[pa.Table, list[list[int] | None]]:
    """Rows that copy any pieces of any row before them, and their prompts. Some have no tokens."""
    rows, prompts, whole, fresh = list[Row](), list[list[int] | None](), list[list[int]](), iter(range(10**9))
    for place in range(draw(st.integers(1, 9))):
        if draw(st.integers(0, 9)) == 0:
            rows.append({"step_id": f"s{place}"})
            prompts.append(None)
            whole.append([])
            continue
        base = draw(st.integers(-1, place - 1))
        ops, suffix, prompt = list[int](), list[int](), list[int]()
        for _ in range(draw(st.integers(1, 3))):
            source = draw(st.integers(0, len(whole[base]))) if base >= 0 else 0
            count = draw(st.integers(0, len(whole[base]) - source)) if base >= 0 else 0
            own = [next(fresh) for _ in range(draw(st.integers(0, 3)))]
            ops += [source, count, len(own)]
            prompt += (whole[base][source : source + count] if base >= 0 else []) + own
            suffix += own
        response = [next(fresh) for _ in range(draw(st.integers(0, 2)))]
        stored_as = {"prompt_ops": ops, "prompt_suffix": suffix, "response_ids": response}
        base_id = f"s{base}" if base >= 0 else None
        rows.append({"step_id": f"s{place}", "base_id": base_id, "prompt_length": len(prompt), **stored_as})
        prompts.append(prompt)
        whole.append(prompt + response)
    return stored(rows), prompts


@settings(max_examples=80, deadline=None)
@given(trees(), st.data())
def test_some_rows_in_any_order(made: tuple[pa.Table, list[list[int] | None]], data: st.DataObject) -> None:
    steps, prompts = made
    shuffled = data.draw(st.permutations(range(len(prompts))))
    steps = steps.take(pa.array(shuffled))
    rows = data.draw(st.lists(st.sampled_from(range(len(prompts))), unique=True))
    found = restore_rows(steps, np.array(rows, np.int64), ["prompt_ids"])
    found["prompt_ids"].validate(full=True)
    assert found["prompt_ids"].to_pylist() == [prompts[shuffled[row]] for row in rows]
    assert found["step_id"].to_pylist() == [f"s{shuffled[row]}" for row in rows]


def test_ranges_that_begin_and_end_anywhere() -> None:
    """In a prompt, in the response behind it, across both; through two steps that are not handed out."""
    base = {"step_id": "a", "prompt_length": 4, "prompt_ops": [], "prompt_suffix": [0, 1, 2, 3]}
    middle = {"step_id": "b", "base_id": "a", "prompt_length": 5, "prompt_ops": [3, 4, 1], "prompt_suffix": [10]}
    rows = [{**base, "response_ids": [4, 5, 6, 7]}, {**middle, "response_ids": [11, 12, 13]}]
    whole = [3, 4, 5, 6, 10, 11, 12, 13]
    pieces = [(first, last) for first in range(8) for last in range(first + 1, 9)]
    for number, (first, last) in enumerate(pieces):
        ops = [first, last - first, 1]
        last_one = {"step_id": f"c{number}", "base_id": "b", "prompt_ops": ops, "prompt_suffix": [99]}
        rows.append({**last_one, "prompt_length": last - first + 1, "response_ids": []})
    found = restore_rows(stored(rows), np.arange(2, len(rows)), ["prompt_ids"])["prompt_ids"].to_pylist()
    assert found == [[*whole[first:last], 99] for first, last in pieces]


def test_the_last_of_a_long_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs its own length: of the prompts before it nothing is copied that is not of it."""
    steps = chain(DEPTH)
    whole = restore(steps, ["prompt_ids"])["prompt_ids"]
    copied: list[int] = []
    real = _fill._copy

    def counting(into: Any, values: Any, copies: Any) -> None:
        listed = list(copies)
        copied.append(sum(count for _, _, count in listed))
        real(into, values, listed)

    monkeypatch.setattr(_fill, "_copy", counting)
    for wanted in ([DEPTH - 1], [500, DEPTH - 1], [DEPTH - 1, 3]):
        copied.clear()
        found = restore_rows(steps, np.array(wanted), ["prompt_ids"])["prompt_ids"]
        assert found.to_pylist() == whole.take(pa.array(wanted)).to_pylist()
        assert sum(copied) == sum(len(ids) for ids in found.to_pylist())
        assert found.nbytes < 4 * sum(copied) + 200


def test_batches_of_a_chain_are_bounded() -> None:
    steps = chain(300)
    asked = np.arange(300) % 7 == 0
    (batch,) = restore_batches(steps, ["prompt_ids"], wanted=steps["step_id"].filter(pa.array(asked)).combine_chunks())
    assert batch.equals(restore_some(steps, asked, ["prompt_ids"]))
    assert batch["prompt_ids"].nbytes < 4 * sum(map(len, batch["prompt_ids"].to_pylist())) + 2000
