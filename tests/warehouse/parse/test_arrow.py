"""Steps that come as Arrow rows are the steps that come one by one as JSON: the same rows, the same refusals."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import Unparseable
from stepwell.sdk.records import Step
from stepwell.spool import Entry, Record
from stepwell.warehouse import Warehouse
from stepwell.warehouse._ingest.rows import step_rows
from stepwell.warehouse._link.link import Linker
from stepwell.warehouse._link.trajectories import Memories
from stepwell.warehouse._parse import arrow as arrow_module
from stepwell.warehouse._parse.arrow import JSON, LISTS, TIMES, as_stream, read_rows
from stepwell.warehouse._parse.arrow_drafts import Drafts
from stepwell.warehouse._parse.histories import Histories
from stepwell.warehouse._parse.records import Parsed, parse_record
from stepwell.warehouse._redact.rules import RedactConfig, Redactor, RedactRule
from stepwell.warehouse._tables.table import LEDGER_KEY

AT = datetime(2026, 4, 1, 12, 30, 15, 123456, UTC)
Fields = Mapping[str, Any]


def kind_of(name: str) -> pa.DataType:
    if name in ("prompt_ids", "response_ids"):
        return pa.list_(pa.int64())
    if name in TIMES:
        return pa.timestamp("us", "UTC")
    kinds = {"logprobs": pa.list_(pa.float64()), "policy_version": pa.int64(), "reward": pa.float64()}
    return {**kinds, "trainable": pa.bool_()}.get(name, pa.string())


def batch_of(steps: Sequence[Fields]) -> pa.RecordBatch:
    names = list(dict.fromkeys(name for step in steps for name in step)) or ["step_id"]
    columns: dict[str, pa.Array] = {}
    for name in names:
        values = [step.get(name) for step in steps]
        if name in JSON:
            values = [None if value is None else orjson.dumps(value).decode() for value in values]
        columns[name] = pa.array(values, kind_of(name))
    return pa.RecordBatch.from_pydict(columns)


def body_of(steps: Sequence[Fields]) -> bytes:
    return ipc(batch_of(steps))


def ipc(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def as_rows(steps: Sequence[Fields], redactor: Redactor | None = None) -> Parsed:
    """Two records, so that the second one goes on from what the first has said."""
    parsed, histories, half = Parsed(), Histories(), len(steps) // 2
    for number, some in enumerate((steps[:half], steps[half:])):
        record = Record(1, f"r{number}", "steps", None, 10**18, b"", body_of(some))
        parse_record(record, "p", lambda _: None, parsed, redactor or Redactor(), histories)
    return parsed


def as_json(steps: Sequence[Fields], redactor: Redactor | None = None) -> Parsed:
    parsed, half = Parsed(), len(steps) // 2
    for number, fields in enumerate(steps):
        name = f"r0.{number}" if number < half else f"r1.{number - half}"
        said = {key: value for key, value in {"step_id": name, **fields}.items() if value is not None}
        record = Record(1, name, "step", None, 10**18, b"", orjson.dumps({"step_id": name, **said}))
        parse_record(record, "p", lambda _: None, parsed, redactor or Redactor())
    return parsed


def table_of(parsed: Parsed) -> pa.Table:
    linker = Linker(Memories(1 << 30))
    unique = {draft.step.step_id: draft for draft in reversed(parsed.drafts)}
    return step_rows([linker.place(draft) for draft in reversed(unique.values())])


def refused(parsed: Parsed) -> list[tuple[str, str]]:
    """Each refusal's id and reason, without the row."""
    return [(row["exchange_id"], row["reason"].partition(": ")[2]) for row in parsed.quarantined]


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
NAME = st.one_of(st.none(), st.sampled_from(["a", "é", "", "x" * 256, "x" * 257, "\x00", "a\nb"]))
PART = st.sampled_from([{"type": "text", "text": "t"}, {"type": "image_url", "image_url": {"url": "u"}}, "odd", 5, {}])
MESSAGE = st.one_of(
    st.builds(
        lambda role, text: {"role": role, "content": text}, st.sampled_from(["system", "user", "assistant"]), TEXT
    ),
    st.builds(lambda parts: {"role": "user", "content": parts}, st.lists(PART, max_size=2)),
    st.sampled_from(
        [{"role": "tool", "tool_call_id": "c", "content": "r"}, {"role": 5}, {"content": "no role"}, "text"]
    ),
)
OBJECT = st.one_of(st.none(), st.sampled_from([{}, {"a": 1.5, "tags": ["x"]}, {"prompt_tokens": 3}, [], "text", 7]))
ID = st.integers(0, 2**31 - 1) | st.sampled_from([0, 1, 2**31 - 1])
WRONG_ID = st.sampled_from([-1, 2**31, None])
IDS = st.none() | st.lists(ID, max_size=3) | st.lists(ID | WRONG_ID, max_size=3)
LOGPROB = st.floats(-20, 0, width=32) | st.sampled_from([0.0, 1e-3, 1.1e-3, float("nan"), float("-inf"), -1e39, None])
TIME = st.none() | st.just(AT)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Steps of a few trajectories that mostly go on from each other, some of them wrong in some way."""
    steps: list[dict[str, Any]] = []
    talks: dict[str | None, list[Any]] = {}
    for _ in range(draw(st.integers(0, 6))):
        whose = draw(st.sampled_from(["t1", "t2", None]))
        prompt = [*talks.get(whose, []), *draw(st.lists(MESSAGE, max_size=2))]
        if draw(st.integers(0, 5)) == 0:
            prompt = prompt[1:]
        talks[whose] = [*prompt, {"role": "assistant", "content": "yes"}]
        response = draw(IDS)
        right = response is not None and draw(st.booleans())
        logprobs = [draw(LOGPROB) for _ in response or ()] if right else draw(st.none() | st.lists(LOGPROB, max_size=2))
        steps.append(
            {
                "trajectory_id": whose,
                "messages": draw(st.sampled_from([prompt, prompt, None])),
                "response": draw(st.sampled_from(["yes", {"content": "yes"}, {"content": 5}, None])),
                "prompt_ids": draw(IDS) if response is None or draw(st.booleans()) else [1, 2],
                "response_ids": response,
                "logprobs": logprobs,
                "reward": draw(st.none() | st.floats()),
                "split": draw(st.sampled_from([None, "train", "test"])),
                "source": draw(st.sampled_from([None, "engine", "tokenizer:x", "tokenizer:", "other"])),
                "status": draw(st.sampled_from([None, "ok", "error", "okay"])),
                "continues": draw(st.sampled_from([None, None, "response:1", "response:", "x"])),
                "model_asked": draw(NAME),
                "call_id": draw(NAME),
                "tools": draw(st.sampled_from([None, None, [], [{"n": 1}], [1]])),
                "metadata": draw(OBJECT),
                "trainable": draw(st.sampled_from([None, True, False])),
                "untrainable_reason": draw(st.sampled_from([None, "", "why"])),
                "started_at": draw(TIME),
                "policy_version": draw(st.none() | st.integers(-(2**63), 2**63 - 1)),
            }
        )
    return steps


def finite(steps: Sequence[Fields]) -> bool:
    """JSON has no NaN and no infinity: such steps cannot be sent that way."""
    numbers = [number for step in steps for number in (step["reward"], *(step["logprobs"] or ())) if number is not None]
    return all(np.isfinite(numbers))


@settings(max_examples=120, deadline=None)
@given(conversations())
def test_the_same_rows_and_the_same_refusals(steps: list[dict[str, Any]]) -> None:
    rows = as_rows(steps)
    if not finite(steps):  # refused as rows, impossible as JSON
        wrong = [n for n, step in enumerate(steps) if not finite([step])]
        assert {f"r{int(n >= len(steps) // 2)}.{n - (len(steps) // 2) * (n >= len(steps) // 2)}" for n in wrong} <= {
            row["exchange_id"] for row in rows.quarantined
        }
        return
    one_by_one = as_json(steps)
    assert refused(rows) == [(row["exchange_id"], row["reason"]) for row in one_by_one.quarantined]
    assert table_of(rows).equals(table_of(one_by_one))
    assert rows.events == one_by_one.events


GOOD: dict[str, Any] = {
    "messages": [said("q")],
    "response": "a",
    "prompt_ids": [1, 2],
    "response_ids": [3],
    "logprobs": [-0.5],
    "finish_reason": "stop",
    "sampling": {"temperature": 1.0},
    "started_at": AT,
}


def test_no_model_is_made_of_a_row_that_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = read_rows(
        body_of([{**GOOD, "step_id": f"s{n}", "source": "tokenizer:x", "continues": "response:1"} for n in range(3)])
    )
    monkeypatch.setattr(Step, "model_validate", None)
    assert None not in list(Drafts(rows, "r", "p", 1, Histories()))


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"prompt_ids": []}, "prompt_ids: is empty"),
        ({"prompt_ids": [1, None]}, r"prompt_ids\[1\]"),
        ({"prompt_ids": [1, -4]}, r"prompt_ids\[1\]"),
        ({"response_ids": [2**31]}, r"response_ids\[0\]"),
        ({"logprobs": [-0.5, -0.5]}, "logprobs: 2 of them for 1"),
        ({"logprobs": [0.5]}, r"logprobs\[0\]"),
        ({"logprobs": [float("nan")]}, r"logprobs\[0\]"),
        ({"reward": float("inf")}, "reward: "),
        ({"response_ids": None, "logprobs": None}, "response_ids: prompt_ids and response_ids come together"),
        ({"step_id": LEDGER_KEY}, "step_id: .*keep for themselves"),
        ({"trajectory_id": "a\x01"}, "trajectory_id"),
        ({"finish_reason": ""}, "finish_reason"),
        ({"messages": [{"role": 5}]}, "messages"),
        ({"tools": [5]}, r"tools\[0\]"),
        ({"metadata": [1]}, "metadata"),
    ],
)
def test_a_bad_row_is_kept_alone_with_its_reason(wrong: Fields, reason: str) -> None:
    steps = [
        {"step_id": "a", **GOOD},
        {"step_id": "b", "trajectory_id": "t", **GOOD, **wrong},
        {"step_id": "c", **GOOD},
    ]
    parsed = Parsed()
    parse_record(Record(5, "r", "steps", None, 0, b"", body_of(steps)), "p", lambda _: None, parsed)
    assert [draft.step.step_id for draft in parsed.drafts] == ["a", "c"]
    (row,) = parsed.quarantined
    assert row["exchange_id"] == "r.1" and row["sequence"] == 5 and row["dialect"] == "steps"
    assert row["trajectory_id"] == steps[1]["trajectory_id"]
    again = Parsed()
    parse_record(Record(1, "r", "steps", None, 0, b"", row["response_body"]), "p", lambda _: None, again)
    for found, number in ((row, 1), (again.quarantined[0], 0)):
        assert re.match(f"row {number}: {reason}", found["reason"]), found["reason"]
    assert not again.drafts


def stream_of(columns: Mapping[str, pa.Array]) -> bytes:
    return ipc(pa.RecordBatch.from_pydict(dict(columns)))


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "no Arrow stream"),
        (b"\xff" * 40, "no Arrow stream"),
        (body_of([GOOD])[:-60], "no Arrow stream"),
        (stream_of({"colour": pa.array(["red"])}), "colour is no field of a step"),
        (stream_of({"messages": pa.array([1])}), "messages is of type int64"),
        (stream_of({"prompt_ids": pa.array([1])}), "prompt_ids is of type int64"),
        (stream_of({"prompt_ids": pa.array([[1.5]])}), "prompt_ids is of type list"),
        (stream_of({"logprobs": pa.array([[1]])}), "logprobs is of type list"),
        (stream_of({"started_at": pa.array([AT.replace(tzinfo=None)])}), "started_at is of type timestamp"),
        (stream_of({"trainable": pa.array([1])}), "trainable is of type int64"),
        (stream_of({"policy_version": pa.array([2**63], pa.uint64())}), "is no Arrow stream of steps: Integer value"),
    ],
)
def test_a_stream_that_cannot_be_read_is_kept_whole(body: bytes, reason: str) -> None:
    parsed = Parsed()
    parse_record(Record(5, "r", "steps", None, 0, b"", body), "p", lambda _: None, parsed)
    (row,) = parsed.quarantined
    assert row["exchange_id"] == "r" and row["response_body"] == body and not parsed.drafts
    assert reason in row["reason"]


def test_text_that_is_no_unicode_is_refused() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, *pa.array([b"\xff\xfe"], pa.binary()).buffers()[1:]])
    parsed = Parsed()
    parse_record(Record(5, "r", "steps", None, 0, b"", stream_of({"policy": broken})), "p", lambda _: None, parsed)
    assert "UTF" in parsed.quarantined[0]["reason"] and not parsed.drafts


def test_one_record_holds_so_many_rows_and_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    body = body_of([GOOD] * 3)
    assert read_rows(body).num_rows == 3
    monkeypatch.setattr(arrow_module, "MAX_ROWS", 2)
    with pytest.raises(Unparseable, match="more than 2 steps"):
        read_rows(body)
    monkeypatch.setattr(arrow_module, "MAX_ROWS", 3)
    monkeypatch.setattr(arrow_module, "MAX_BYTES", 100)
    with pytest.raises(Unparseable, match="than 100 bytes"):
        read_rows(body)


def test_the_other_types_that_are_taken() -> None:
    columns: dict[str, pa.Array] = {
        "policy": pa.array(["p", "p"]).dictionary_encode(),
        "messages": pa.array([orjson.dumps([said("q")]).decode()] * 2, pa.large_string()),
        "response": pa.array(['"a"', "null"]),
        "prompt_ids": pa.array([[1], [2**31 - 1]], pa.large_list(pa.uint64())),
        "response_ids": pa.array([[1], [2]], pa.list_(pa.int32())),
        "logprobs": pa.array([[-1.0], [-2.0]], pa.large_list(pa.float32())),
        "reward": pa.array([0.5, None], pa.float32()),
        "policy_version": pa.array([1, 2], pa.int8()),
        "finished_at": pa.array([1, 2], pa.timestamp("ns", "Europe/Berlin")),
        "metadata": pa.nulls(2),
    }
    parsed = Parsed()
    parse_record(Record(5, "r", "steps", None, 0, b"", stream_of(columns)), "p", lambda _: None, parsed)
    rows = table_of(parsed).to_pylist()
    assert [row["step_id"] for row in rows] == ["r.0", "r.1"]
    assert [row["prompt_suffix"] for row in rows] == [[1], [2**31 - 1]]
    assert [row["policy"] for row in rows] == ["p", "p"] and [row["policy_version"] for row in rows] == [1, 2]
    assert rows[0]["finished_at"] == datetime(1970, 1, 1, tzinfo=UTC)
    assert [event["value"] for event in parsed.events] == [0.5]


def test_rules_are_kept() -> None:
    redactor = Redactor(RedactConfig(rules=(RedactRule(pattern="secret", name="s"),)))
    steps = [{**GOOD, "messages": [said("my secret")]}, GOOD]
    rows, one_by_one = as_rows(steps, redactor), as_json(steps, redactor)
    assert table_of(rows).equals(table_of(one_by_one))
    assert b"secret" not in b"".join(rows.drafts[0].messages)


def test_a_row_is_written_as_it_can_be_read_again() -> None:
    rows = read_rows(body_of([GOOD, {**GOOD, "step_id": "x"}]))
    again = read_rows(as_stream(rows.slice(1, 1)))
    assert again.to_pylist() == rows.slice(1, 1).to_pylist()
    assert set(LISTS) <= set(again.schema.names)


def test_turns_of_a_trajectory_in_one_record(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> None:
    talk, prompt, steps = [said("q")], [1, 2, 3], []
    for turn in range(12):
        answer = [100 + turn, 101]
        steps.append(
            {
                "trajectory_id": "t",
                "messages": talk,
                "response": f"a{turn}",
                "prompt_ids": prompt,
                "response_ids": answer,
            }
        )
        talk = [*talk, {"role": "assistant", "content": f"a{turn}"}, said(f"q{turn}")]
        prompt = [*prompt, *answer, turn]
    feed.put(Entry("batch", "steps", b'{"format":1}', body_of(steps)))
    feed.put(Entry("again", "steps", b'{"format":1}', body_of([{**steps[0], "step_id": "batch.0"}])))
    ingest()
    rows = pa.table(warehouse.steps(columns=["step_id", "parent_id", "turn", "drift_at", "prompt_ids"])).to_pylist()
    assert [row["step_id"] for row in rows] == [f"batch.{turn}" for turn in range(12)]
    assert [row["parent_id"] for row in rows] == [None, *(f"batch.{turn}" for turn in range(11))]
    assert [row["turn"] for row in rows] == list(range(12)) and {row["drift_at"] for row in rows} == {None}
    assert [row["prompt_ids"] for row in rows] == [step["prompt_ids"] for step in steps]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_a_dictionary_counts_as_what_is_written_out_of_it(kind: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    """One large text that stands in every row is small in the record and would be huge behind it."""
    text = orjson.dumps([said("x" * 5000)]).decode()
    ids = pa.array([f"s{number}" for number in range(50)])
    places = pa.array([None, *[0] * 49], pa.int32())
    column = pa.DictionaryArray.from_arrays(places, pa.array([text, None], kind))
    body = ipc(pa.RecordBatch.from_pydict({"step_id": ids, "messages": column}))
    assert len(body) < 20_000
    assert read_rows(body).num_rows == 50
    monkeypatch.setattr(arrow_module, "MAX_BYTES", 100_000)
    with pytest.raises(Unparseable, match="more than 16384 steps, or than 100000 bytes"):
        read_rows(body)
