"""What restoring says when something is missing, what it leaves alone, and what it does a piece at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from stepwell.errors import StoreError
from stepwell.sdk.records import Step
from stepwell.warehouse._encode.payloads import PayloadMemory
from stepwell.warehouse._ingest.rows import payload_rows, step_rows
from stepwell.warehouse._link.link import Linked
from stepwell.warehouse._restore.whole import ENCODED, WHOLE, needed, readable, restore, restore_batches, restore_some
from stepwell.warehouse._tables.schema import STEPS

Store = Callable[[list[Step]], pa.Table]
PROMPT = list(range(30))
FIRST = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "yes"}
LARGE = {"role": "user", "content": "long " * 1000}


def step(name: str, ids: list[int], said: list[dict[str, Any]], trajectory: str = "t", **more: Any) -> Step:
    fields = {"trajectory_id": trajectory, "prompt_ids": ids, "response_ids": [1, 2], "messages": said, **more}
    return Step(step_id=name, response=ANSWER, **fields)


PAIR = [
    step("a", PROMPT, [FIRST], tools=[{"name": "t"}]),
    step("b", [*PROMPT, 1, 2, 3], [FIRST, ANSWER, {"role": "user", "content": "more"}], tools=[{"name": "t"}]),
]


@pytest.fixture
def pair(linked: Store) -> pa.Table:
    """A step, and one that is stored as the difference to it."""
    return linked(PAIR)


def test_rows_may_come_in_any_order(pair: pa.Table) -> None:
    whole = restore(pair.take(pa.array([1, 0])))
    assert whole["step_id"].to_pylist() == ["b", "a"]
    assert whole["prompt_ids"].to_pylist() == [[*PROMPT, 1, 2, 3], PROMPT]
    assert whole["tools"].to_pylist() == ['[{"name":"t"}]'] * 2


def test_rows_may_come_in_pieces(pair: pa.Table) -> None:
    cut = pa.concat_tables([pair.slice(0, 1), pair.slice(1, 1)])
    assert cut["prompt_suffix"].num_chunks == 2
    assert restore(cut).equals(restore(pair))


@pytest.mark.parametrize("column", [*WHOLE, "response"])
def test_only_what_is_asked_for_is_read_and_restored(pair: pa.Table, column: str) -> None:
    found = restore(pair.select(needed([column])), [column])
    assert set(found.column_names) - {"response", "response_ids", "prompt_length"} == {"step_id", column} - {"response"}
    assert found[column].to_pylist() == restore(pair)[column].to_pylist()


def test_a_missing_base_is_named(pair: pa.Table) -> None:
    for column in WHOLE:
        with pytest.raises(StoreError, match="step b refers to step a, which is not there"):
            restore(pair.slice(1), [column])


@pytest.mark.parametrize(
    "ops",
    [
        [0, 99, 1],
        [99, 1, 32],
        [-1, 32, 1],
        [0, 33, 0],
        [0, 31, 2],
        [0, 32, 1, 0],
        [0, 32],
        [0, 34, -1],
        [0, -1, 34],
        [],
    ],
)
def test_prompts_that_do_not_fit_are_named(pair: pa.Table, ops: list[int]) -> None:
    place = pair.column_names.index("prompt_ops")
    damaged = pair.set_column(
        place, pair.schema.field("prompt_ops"), pa.array([[], ops], pair.schema.field(place).type)
    )
    with pytest.raises(StoreError, match="the prompt of step b cannot be restored"):
        restore(damaged)


@pytest.mark.parametrize("ops", [[0, 3, 1], [3, 1, 1], [-1, 2, 1]])
def test_messages_that_do_not_fit_are_named(pair: pa.Table, ops: list[int]) -> None:
    place = pair.column_names.index("messages_ops")
    damaged = pair.set_column(
        place, pair.schema.field("messages_ops"), pa.array([[], ops], pair.schema.field(place).type)
    )
    with pytest.raises(StoreError, match="the messages of step b cannot be restored"):
        restore(damaged)


def test_empty_in_empty_out() -> None:
    empty = STEPS.schema.empty_table()
    whole = restore(empty)
    assert whole.num_rows == 0
    assert set(WHOLE) <= set(whole.column_names)
    assert list(restore_batches(empty)) == []
    assert restore_some(empty, np.zeros(0, np.bool_)).num_rows == 0


def test_storage_columns_are_not_readable(pair: pa.Table) -> None:
    names = readable(STEPS.schema.names)
    assert not {*ENCODED, "ledger"} - {"tools"} & set(names)
    assert names[-3:] == list(WHOLE)
    assert set(restore(pair).column_names) == {*names, "ledger"}


def branches() -> list[Step]:
    """Of three trajectories; in `t` only `b` and its child need what `a` has in its payload."""
    return [
        step("a", PROMPT, [FIRST, LARGE]),
        step("b", [*PROMPT, 1, 2, 3], [FIRST, LARGE, ANSWER, FIRST]),
        step("c", [*PROMPT, 1, 2, 3, 4], [FIRST, LARGE, ANSWER, FIRST, FIRST]),
        step("d", [*PROMPT, 9], [FIRST]),
        step("u", PROMPT, [FIRST], "u", tools=[{"name": "t" * 3000}]),
        step("u2", [*PROMPT, 1, 2], [FIRST, ANSWER, FIRST], "u", tools=[{"name": "t" * 3000}]),
        step("v", PROMPT, [FIRST], "v"),
    ]


@pytest.fixture
def apart(placed: Callable[[list[Step]], list[Linked]]) -> tuple[pa.Table, dict[str, bytes]]:
    """Rows, and the payloads that they refer to."""
    made = placed(branches())
    payloads = payload_rows(made, PayloadMemory())
    return step_rows(made), dict(zip(payloads["payload_id"].to_pylist(), payloads["data"].to_pylist(), strict=True))


def test_payloads_are_put_back(apart: tuple[pa.Table, dict[str, bytes]]) -> None:
    rows, payloads = apart
    assert len(payloads) == 2
    asked: list[set[str]] = []

    def lookup(ids: Any) -> dict[str, bytes]:
        asked.append(set(ids))
        return payloads

    whole = restore(rows, payloads=lookup)
    assert asked == [set(payloads)], "all at once"
    for given, row in zip(branches(), whole.to_pylist(), strict=True):
        texts = [message["content"][0]["text"] for message in orjson.loads(row["messages"])]
        assert texts == [message["content"] for message in given.messages or ()]
        assert (orjson.loads(row["tools"]) if row["tools"] else None) == given.tools


def test_a_missing_payload_is_named_and_the_rest_is_readable(apart: tuple[pa.Table, dict[str, bytes]]) -> None:
    rows, payloads = apart
    gone = next(id_ for id_, data in payloads.items() if b"long" in data)
    left = {id_: data for id_, data in payloads.items() if id_ != gone}
    broken: dict[int, str] = {}
    whole = restore(rows, payloads=lambda _: left, broken=broken)
    lost = f"step a refers to payload {gone}, which is not there"
    assert broken == {0: lost, 1: lost, 2: lost}
    assert [text is None for text in whole["messages"].to_pylist()] == [True] * 3 + [False] * 4
    assert whole["prompt_ids"].null_count == 0
    with pytest.raises(StoreError, match=lost):
        restore(rows, payloads=lambda _: left)
    names = np.array(rows["step_id"].to_pylist())
    found = restore_some(rows, names == "d", payloads=lambda _: left)
    assert found["step_id"].to_pylist() == ["d"]
    with pytest.raises(StoreError, match=lost):
        restore_some(rows, names == "c", payloads=lambda _: left)
    later = rows.slice(4), {id_: data for id_, data in payloads.items() if id_ == gone}
    with pytest.raises(StoreError, match="step u refers to payload"):
        restore_some(pa.concat_tables([rows.slice(3, 1), later[0]]), np.arange(4) == 2, payloads=lambda _: later[1])
    by_name: dict[str, str] = {}
    assert restore_some(rows, (names == "c") | (names == "v"), WHOLE, lambda _: left, by_name)[
        "step_id"
    ].to_pylist() == ["v"]
    assert by_name == {"c": lost}


def test_a_lost_base_takes_only_what_needs_it(apart: tuple[pa.Table, dict[str, bytes]]) -> None:
    rows, payloads = apart
    broken: dict[int, str] = {}
    whole = restore(rows.slice(1), payloads=lambda _: payloads, broken=broken)
    assert broken == dict.fromkeys(range(3), "step b refers to step a, which is not there")
    assert whole["prompt_ids"].is_valid().to_pylist() == [False] * 3 + [True] * 3
    assert whole["response_ids"].null_count == 0, "what is stored whole stays"


@pytest.mark.parametrize("max_bytes", [1, 700, 1 << 30])
@pytest.mark.parametrize("columns", [WHOLE, ("prompt_ids",), ("messages",)])
def test_a_few_trajectories_at_a_time(
    apart: tuple[pa.Table, dict[str, bytes]], max_bytes: int, columns: tuple[str, ...]
) -> None:
    rows, payloads = apart
    batches = list(restore_batches(rows, columns, lambda _: payloads, max_bytes=max_bytes))
    if max_bytes == 1:
        assert [batch["step_id"].to_pylist() for batch in batches] == [["a", "b", "c", "d"], ["u", "u2"], ["v"]]
    else:
        many = 3 if columns == WHOLE else 2
        assert len(batches) == (many if max_bytes == 700 else 1)
    assert pa.concat_tables(batches).equals(restore(rows, columns, lambda _: payloads))


def test_batches_of_some_steps(apart: tuple[pa.Table, dict[str, bytes]]) -> None:
    rows, payloads = apart
    wanted = pa.array(["v", "c", "nobody's"])
    batches = list(restore_batches(rows, WHOLE, lambda _: payloads, wanted=wanted, max_bytes=1))
    assert [batch["step_id"].to_pylist() for batch in batches] == [["c"], ["v"]]
    whole = restore(rows, payloads=lambda _: payloads)
    assert batches[0]["messages"].to_pylist() == whole["messages"].to_pylist()[2:3]
    broken: dict[str, str] = {}
    assert not next(restore_batches(rows.slice(1, 2), WHOLE, lambda _: payloads, broken=broken)).num_rows
    assert set(broken) == {"b", "c"}


def test_steps_without_tokens_and_steps_without_text(linked: Store) -> None:
    """A base may lack what the step has."""
    bare = {"messages": None, "response": None}
    steps = [
        step("ids", PROMPT, []).model_copy(update=bare),
        step("both", [*PROMPT, 1, 2, 4], [FIRST]),
        step("text", [1], [FIRST, ANSWER]).model_copy(update={"prompt_ids": None, "response_ids": None}),
        step("last", [*PROMPT, 1, 2, 4, 1, 2], [FIRST, ANSWER, FIRST]),
    ]
    whole = restore(linked(steps))
    assert whole["prompt_ids"].to_pylist() == [PROMPT, [*PROMPT, 1, 2, 4], None, [*PROMPT, 1, 2, 4, 1, 2]]
    counts = [None if text is None else len(orjson.loads(text)) for text in whole["messages"].to_pylist()]
    assert counts == [None, 1, 2, 3]
