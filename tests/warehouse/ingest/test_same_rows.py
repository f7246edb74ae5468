"""What ingest remembers to save time changes no row: whatever is submitted comes to what it comes to without."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.spool import Record
from stepwell.warehouse import Warehouse
from stepwell.warehouse._encode.delta import Base, Delta, encode
from stepwell.warehouse._ingest.round import Rounds
from stepwell.warehouse._link import link as _link
from stepwell.warehouse._parse.arrow import JSON
from stepwell.warehouse._parse.draft import Draft
from stepwell.warehouse._parse.histories import Histories
from stepwell.warehouse._parse.records import Parsed, parse_record

Fields = dict[str, Any]
_TYPES = {
    "prompt_ids": pa.list_(pa.int32()),
    "response_ids": pa.list_(pa.int32()),
    "logprobs": pa.list_(pa.float32()),
    "policy_version": pa.int64(),
}

TURN = st.fixed_dictionaries(
    {
        "trajectory": st.sampled_from(["a", "a", "a", "b", None]),
        "after": st.integers(0, 3),  # so many steps ago is the one that it goes on from
        "how": st.sampled_from(
            ["exact"] * 6 + ["drift", "cut", "system", "rewritten", "again", "sibling", "alone", "orphan"]
        ),
        "what": st.sampled_from(["both", "both", "both", "ids", "text"]),
        "new": st.integers(0, 40),
        "said": st.sampled_from([0, 20]),
        "text": st.sampled_from(["", "x", '"]},', "é\n", "<think>t</think>\n\nx", "x" * 3000]),
        "role": st.sampled_from(["user", "user", "tool", "developer"]),
        "alone": st.sampled_from([False, False, False, True]),  # in a record of its own, as JSON
    }
)


def made(turns: Sequence[dict[str, Any]]) -> list[tuple[Fields, bool]]:
    """The steps of these turns, and whether each is submitted by itself."""
    steps: list[tuple[Fields, bool]] = []
    for number, turn in enumerate(turns):
        before = steps[-1 - turn["after"]][0] if turn["after"] < len(steps) else None
        if turn["how"] == "again" and before is not None:
            steps.append((before, turn["alone"]))
            continue
        steps.append((_step(number, turn, None if turn["how"] == "alone" else before), turn["alone"]))
    return steps


def _step(number: int, turn: dict[str, Any], before: Fields | None) -> Fields:
    ids, messages = list(range(1, 25)), [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
    if before is not None:
        ids = [*(before.get("prompt_ids") or ids), *(before.get("response_ids") or [])]
        messages = [*(before.get("messages") or messages), *([before["response"]] if before.get("response") else [])]
    if turn["how"] == "sibling" and before is not None:
        ids, messages = before.get("prompt_ids") or ids, before.get("messages") or messages
    else:
        ids = [*ids, *(number * 100 + place for place in range(turn["new"]))]
        messages = [*messages, {"role": turn["role"], "content": turn["text"]}]
    if turn["how"] == "drift":
        ids = [*ids[: len(ids) // 2], 7777, *ids[len(ids) // 2 + 1 :]]
    if turn["how"] == "cut":
        ids, messages = ids[: len(ids) - 5], messages[:-1] or messages
    if turn["how"] == "system":
        messages = [{"role": "system", "content": f"s{number}"}, *messages[1:]]
    if turn["how"] == "rewritten":
        messages = [messages[0], {"role": "user", "content": f"short of {number}"}, messages[-1]]
    fields: Fields = {"step_id": f"s{number}", "trajectory_id": turn["trajectory"]}
    if turn["what"] != "text":
        said = [number * 100 + 50 + place for place in range(turn["said"])]
        fields |= {"prompt_ids": ids, "response_ids": said, "logprobs": [-0.5] * len(said)}
    if turn["what"] != "ids":
        fields |= {"messages": messages, "response": {"role": "assistant", "content": turn["text"]}}
    if turn["how"] == "orphan":
        fields["parent_id"] = "never-seen"
    return {**fields, "policy": f"p{number % 2}", "policy_version": number % 3, "sampling": {"temperature": 1.0}}


def arrow(steps: Sequence[Fields]) -> bytes:
    names = list(dict.fromkeys(name for step in steps for name in step))
    columns = {name: [step.get(name) for step in steps] for name in names}
    for name in JSON:
        if name in columns:
            columns[name] = [None if value is None else orjson.dumps(value).decode() for value in columns[name]]
    arrays = {name: pa.array(values, _TYPES.get(name, pa.string())) for name, values in columns.items()}
    rows, sink = pa.RecordBatch.from_pydict(arrays), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def records(steps: Sequence[tuple[Fields, bool]], *, together: bool) -> list[Record]:
    """One after the other, those that are not alone in one of Arrow as long as they follow each other."""
    found: list[Record] = []
    some: list[Fields] = []
    for fields, alone in [*steps, ({}, True)]:
        if together and not alone:
            some.append(fields)
            continue
        if some:
            found.append(Record(len(found) + 1, f"r{len(found)}", "steps", None, 10**18, b"", arrow(some)))
            some = []
        if fields:
            body = orjson.dumps({name: value for name, value in fields.items() if value is not None})
            found.append(Record(len(found) + 1, f"r{len(found)}", "step", None, 10**18, b"", body))
    return found


def rows_of(
    rounds: Rounds, flushes: Sequence[Sequence[tuple[Fields, bool]]], histories: Histories | None
) -> list[list[dict[str, Any]]]:
    """The rows of each flush, without the records that they came in; with nothing remembered where there are no `histories`."""
    rounds.look()
    found, at = [], 0
    for number, steps in enumerate(flushes):
        parsed, begun = Parsed(), at
        for record in records(steps, together=histories is not None):
            at += 1
            parse_record(record, "p", lambda _: None, parsed, histories=histories)
        assert not parsed.quarantined
        made = rounds.rows(parsed, {"p": (begun, at)}, number + 1).tables.get("steps")
        found.append([] if made is None else made.drop_columns(["producer", "sequence"]).to_pylist())
    return found


def plainly(draft: Draft, bases: Sequence[Base], parent_id: str | None, _: int) -> Delta:
    return encode(draft, bases, parent_id)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(TURN, min_size=1, max_size=8), min_size=1, max_size=3))
def test_the_same_rows_with_and_without_what_is_remembered(flushes: list[list[dict[str, Any]]]) -> None:
    steps = iter(made([turn for turns in flushes for turn in turns]))
    some = [[next(steps) for _ in turns] for turns in flushes]
    remembered = rows_of(Rounds(_EMPTY[0]), some, Histories())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_link, "encode", plainly)
        assert rows_of(Rounds(_EMPTY[0]), some, None) == remembered


_EMPTY: list[Warehouse] = []


@pytest.fixture(scope="module", autouse=True)
def _warehouse(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing is committed to it."""
    _EMPTY[:] = [Warehouse.open(tmp_path_factory.mktemp("same") / "warehouse")]
