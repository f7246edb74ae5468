"""Steps in a stream: what is read for it, and how much at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stepwell.errors import StoreError
from stepwell.sdk.records import Step
from stepwell.warehouse import Warehouse
from stepwell.warehouse._query import stream as _stream
from stepwell.warehouse._query.stream import stream
from stepwell.warehouse._restore import fill as _fill

TURNS = 40


def prompt(trajectory: int, turn: int) -> list[int]:
    return [trajectory, *range(100, 100 + 10 * (turn + 1))]


@pytest.fixture
def filled(put: Callable[[list[Step]], None], warehouse: Warehouse) -> Warehouse:
    """Three conversations side by side."""
    put(
        [
            Step(
                step_id=f"{trajectory}.{turn:02}",
                trajectory_id=f"t{trajectory}",
                prompt_ids=prompt(trajectory, turn),
                response_ids=[turn],
                messages=[{"role": "user", "content": "q"}],
                response={"role": "assistant", "content": "a"},
            )
            for turn in range(TURNS)
            for trajectory in range(3)
        ]
    )
    return warehouse


def rows_of(warehouse: Warehouse, step_ids: list[str]) -> pa.Table:
    trajectories = pa.array([f"t{name[0]}" for name in step_ids], pa.string())
    return pa.table({"step_id": pa.array(step_ids, pa.string()), "trajectory_id": trajectories})


def streamed(warehouse: Warehouse, rows: pa.Table, columns: list[str], given: tuple[str, ...] = ()) -> Any:
    return stream(warehouse.tables["steps"].dataset, rows, columns, given, warehouse.payloads)


@pytest.mark.parametrize("stored", [1, 1 << 20])
@pytest.mark.parametrize("limit", [1, 4000, 1 << 20])
def test_batches_are_bounded_and_whole(
    filled: Warehouse, stored: int, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stream, "BATCH_BYTES", limit)
    monkeypatch.setattr(_stream, "_STORED_BYTES", stored)
    monkeypatch.setattr(_stream, "_TRAJECTORIES", 1)
    order = [f"{trajectory}.{turn:02}" for trajectory in (2, 0, 1) for turn in range(TURNS)]
    batches = list(streamed(filled, rows_of(filled, order), ["step_id", "prompt_ids"]))
    assert all(batch.num_rows == 1 or 4 * len(batch["prompt_ids"].values) <= limit for batch in batches)
    assert len(batches) == len(order) if limit == 1 else len(batches) < len(order) / 2
    found = pa.Table.from_batches(batches)
    assert found["step_id"].to_pylist() == order
    assert found["prompt_ids"].to_pylist() == [prompt(int(name[0]), int(name[2:])) for name in order]


def test_few_trajectories_are_held_at_once(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as what is stored of them allows, once that is known."""
    held: list[int] = []
    real = _stream._Part

    def noted(rows: pa.Table, stored: pa.Table, columns: list[str]) -> Any:
        held.append(len(stored["trajectory_id"].unique()))
        return real(rows, stored, columns)

    monkeypatch.setattr(_stream, "_Part", noted)
    order = [f"{trajectory}.{turn:02}" for trajectory in range(3) for turn in range(TURNS)]
    for first, limit, expected in ((32, 1, [3]), (1, 1, [1, 1, 1]), (1, 1 << 20, [1, 2]), (2, 1, [2, 1])):
        monkeypatch.setattr(_stream, "_TRAJECTORIES", first)
        monkeypatch.setattr(_stream, "_STORED_BYTES", limit)
        held.clear()
        streamed(filled, rows_of(filled, order), ["prompt_ids"]).read_all()
        assert held == [0, *expected]


@pytest.mark.parametrize("names", [["2.39"], ["1.05", "0.39", "1.04"], ["0.00", "0.00", "0.39", "0.00"], []])
def test_a_few_in_any_order_and_again(filled: Warehouse, names: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[int] = []
    real = _fill._copy

    def counting(into: Any, values: Any, copies: Any) -> None:
        listed = list(copies)
        copied.append(sum(count for _, _, count in listed))
        real(into, values, listed)

    monkeypatch.setattr(_fill, "_copy", counting)
    found = streamed(filled, rows_of(filled, names), ["prompt_ids", "step_id"]).read_all()
    assert found["step_id"].to_pylist() == names
    whole = {name: prompt(int(name[0]), int(name[2:])) for name in names}
    assert found["prompt_ids"].to_pylist() == [whole[name] for name in names]
    assert sum(copied) == sum(map(len, whole.values())), "nothing is restored that is not handed out"


@pytest.mark.parametrize(
    ("columns", "never"),
    [
        (["prompt_ids"], {"response", "messages_suffix", "messages_ops", "payload_ids", "logprobs"}),
        (["logprobs"], {"response", "messages_suffix", "prompt_suffix", "prompt_ops", "response_ids"}),
        (["messages"], {"prompt_suffix", "prompt_ops", "response_ids", "logprobs"}),
    ],
)
def test_only_what_is_asked_for_is_read(
    filled: Warehouse, columns: list[str], never: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[str] = set()
    real = _stream._Part

    def noted(rows: pa.Table, stored: pa.Table, names: list[str]) -> Any:
        read.update(stored.column_names)
        return real(rows, stored, names)

    monkeypatch.setattr(_stream, "_Part", noted)
    found = filled.steps(columns=columns).read_all()
    assert found.column_names == columns and found.num_rows == 3 * TURNS
    assert read and not read & never


def test_what_is_known_is_not_read_again(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(filled, ["0.01", "2.00"]).append_column("labels", pa.array([["x"], []]))
    monkeypatch.setattr(_stream, "Trajectories", None)
    monkeypatch.setattr(_stream, "_STEPS", 1)
    batches = list(streamed(filled, rows, ["labels", "trajectory_id"], ("labels",)))
    assert [batch.to_pylist() for batch in batches] == [
        [{"labels": ["x"], "trajectory_id": "t0"}],
        [{"labels": [], "trajectory_id": "t2"}],
    ]


def test_a_step_that_is_gone_is_named(filled: Warehouse) -> None:
    reader = streamed(filled, rows_of(filled, ["0.01", "0.77"]), ["prompt_ids"])
    with pytest.raises(StoreError, match=r"1 steps are not in the warehouse any more, first 0\.77"):
        reader.read_all()


def test_each_batch_is_checked(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own rows."""
    monkeypatch.setattr(_stream, "BATCH_BYTES", 1)
    seen: list[tuple[list[str], list[str]]] = []

    def check(rows: pa.Table, steps: pa.Table) -> None:
        seen.append((rows["step_id"].to_pylist(), steps["step_id"].to_pylist()))

    rows = rows_of(filled, ["2.01", "0.05"])
    dataset = filled.tables["steps"].dataset
    stream(dataset, rows, ["step_id", "prompt_ids"], (), filled.payloads, check).read_all()
    assert seen == [([], []), (["2.01"], ["2.01"]), (["0.05"], ["0.05"])]
