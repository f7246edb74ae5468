"""Steps as Arrow IPC: what is taken is the same as in JSON, and what is refused names its field."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell.gateway import GatewayConfig
from stepwell.sdk.records import Step

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
I32, F32 = pa.list_(pa.int32()), pa.list_(pa.float32())


def stream(columns: dict[str, Any], **options: Any) -> bytes:
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def send(api: Any, columns: dict[str, Any], **options: Any) -> Any:
    return api.post("/steps", content=stream(columns, **options), headers=ARROW)


def two(**more: Any) -> dict[str, Any]:
    lists = {"prompt_ids": pa.array([[1, 2], [3]], I32), "response_ids": pa.array([[4], [5]], I32)}
    return {"step_id": ["a", "b"], **lists, **more}


def test_every_field_is_kept(api: Any) -> None:
    at = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    columns = two(
        trajectory_id=pa.array(["t", None]),
        logprobs=pa.array([[-0.5], None], F32),
        messages=['[{"role":"user","content":"hi"}]', None],
        response=['"plain"', None],
        metadata=['{"big":18446744073709551615,"x":null,"list":[1.5,true]}', None],
        policy_version=pa.array([None, -(2**63)], pa.int64()),
        reward=[0.25, None],
        trainable=[False, True],
        started_at=pa.array([at, None], pa.timestamp("us", "Europe/Paris")),
        finished_at=pa.array([None, 1_700_000_000_123_456_789], pa.timestamp("ns", "UTC")),
        status=pa.array(["truncated", "ok"]).dictionary_encode(),
        model=pa.nulls(2),
    )
    items = send(api, columns).json()["items"]
    assert items == [{"id": "a", "status": "accepted"}, {"id": "b", "status": "accepted"}]
    a, b = api.steps()
    assert a == Step(
        step_id="a",
        trajectory_id="t",
        prompt_ids=[1, 2],
        response_ids=[4],
        logprobs=[-0.5],
        messages=[{"role": "user", "content": "hi"}],
        response={"role": "assistant", "content": "plain"},
        metadata={"big": 2**64 - 1, "x": None, "list": [1.5, True]},
        reward=0.25,
        trainable=False,
        started_at=at,
        status="truncated",
    )
    assert (b.prompt_ids, b.logprobs, b.policy_version, b.trainable) == ([3], None, -(2**63), True)
    assert b.finished_at == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)
    (record,) = api.records()
    assert (record.kind, record.head) == ("steps", b'{"format":1}') and record.id.startswith("steps.")


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.int64(), pa.uint64()])
def test_integers_of_any_width(api: Any, kind: pa.DataType) -> None:
    columns = {"prompt_ids": pa.array([[1, 2]], pa.large_list(kind)), "response_ids": pa.array([[3]], pa.list_(kind))}
    assert send(api, columns).json()["items"][0]["status"] == "accepted"
    assert api.steps()[0].prompt_ids == [1, 2]


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"prompt_ids": pa.array([[1, -1], [3]], I32)}, "prompt_ids[1]"),
        ({"prompt_ids": pa.array([[1, 2**31], [3]], pa.list_(pa.int64()))}, "prompt_ids[1]"),
        ({"prompt_ids": pa.array([[1, 2**63], [3]], pa.list_(pa.uint64()))}, "prompt_ids[1]"),
        ({"response_ids": pa.array([[None, 4], [5]], I32)}, "response_ids[0]"),
        ({"prompt_ids": pa.array([[], [3]], I32)}, "prompt_ids"),
        ({"prompt_ids": pa.array([None, [3]], I32)}, "prompt_ids"),
        ({"logprobs": pa.array([[-1.0, -1.0], [-1.0]], F32)}, "logprobs"),
        ({"logprobs": pa.array([[float("nan")], [-1.0]], F32)}, "logprobs[0]"),
        ({"logprobs": pa.array([[float("-inf")], None], F32)}, "logprobs[0]"),
        ({"logprobs": pa.array([[0.5], None], pa.list_(pa.float64()))}, "logprobs[0]"),
        ({"logprobs": pa.array([[-1e300], None], pa.list_(pa.float64()))}, "logprobs[0]"),
        ({"reward": [float("nan"), 1.0]}, "reward"),
        ({"metadata": ["{", None]}, "metadata"),
        ({"metadata": ['{"a":NaN}', None]}, "metadata"),
        ({"metadata": ['{"a":18446744073709551616}', None]}, "metadata"),
        ({"metadata": ['{"a":' + "[" * 150 + "]" * 150 + "}", None]}, "metadata"),
        ({"metadata": ['{"a":"\\ud800"}', None]}, "metadata"),
        ({"response": ['{"content":"\\udfff"}', None]}, "response"),
        ({"messages": ['{"role":"user"}', None]}, "messages"),
        ({"policy_version": pa.array([2**63, 1], pa.uint64())}, "policy_version"),
        ({"step_id": ["", "b"]}, "step_id"),
        ({"status": ["good", None]}, "status"),
        ({"started_at": pa.array([2**62, None], pa.timestamp("us", "UTC"))}, "started_at"),
    ],
)
def test_a_bad_row_names_its_field_and_spares_the_other(api: Any, more: dict[str, Any], field: str) -> None:
    answer = send(api, two(**more))
    assert answer.status_code == 200, answer.text
    bad, good = answer.json()["items"]
    assert (bad["status"], bad["field"], good["status"]) == ("refused", field, "accepted")
    assert [step.step_id for step in api.steps()] == ["b"] and api.steps()[0].prompt_ids == [3]


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        (two(nonsense=[1, 2]), "nonsense"),
        (two(reward=["1", "2"]), "reward"),
        (two(trainable=[0, 1]), "trainable"),
        (two(policy_version=[1.0, 2.0]), "policy_version"),
        (two(started_at=pa.array([1, 2], pa.timestamp("us"))), "started_at"),
        (two(prompt_ids=pa.array([[1.0], [2.0]])), "prompt_ids"),
        (two(logprobs=pa.array([[1], [2]])), "logprobs"),
        (two(model=pa.array([b"x", b"y"])), "model"),
        (two(metadata=[{"a": 1}, {"a": 2}]), "metadata"),
    ],
)
def test_a_column_that_is_not_taken_is_named(api: Any, columns: dict[str, Any], field: str) -> None:
    answer = send(api, columns)
    assert (answer.status_code, answer.json()["field"]) == (422, field)
    assert api.records() == []


def test_rows_without_ids_get_some_and_half_known_rows_are_told_apart(api: Any) -> None:
    lists = {name: column for name, column in two().items() if name != "step_id"}
    ids = [item["id"] for item in send(api, lists).json()["items"]]
    assert [step.step_id for step in api.steps()] == ids and len(set(ids)) == 2
    send(api, two())
    answer = send(api, two(step_id=["new", "b"])).json()["items"]
    assert [item["status"] for item in answer] == ["accepted", "duplicate"]
    assert [step.step_id for step in api.steps()][2:] == ["a", "b", "new"]


def test_too_many_rows(api_of: Any) -> None:
    assert send(api_of(GatewayConfig(max_batch=1)), two()).status_code == 413
    nulls = {"model": pa.nulls(1 << 20)}  # of no bytes
    assert send(api_of(), nulls).status_code == 413


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_compressed_buffers_are_refused_before_they_are_made_large(api: Any, codec: str) -> None:
    zeros = {"prompt_ids": pa.array([[0] * 4000], I32), "response_ids": pa.array([[1]], I32)}
    answer = send(api, zeros, compression=codec)
    assert answer.status_code == 415 and "Content-Encoding" in answer.json()["detail"]
    words = pa.array(["x" * 5000, "x" * 5000]).dictionary_encode()
    assert send(api, two(untrainable_reason=words), compression=codec).status_code == 415


def test_a_dictionary_is_not_spelt_out_beyond_the_limit(api_of: Any) -> None:
    api = api_of(GatewayConfig(max_body_bytes=100_000))
    reason = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int8()), pa.array(["x" * 50_000]))
    assert send(api, {"untrainable_reason": reason}).status_code == 413


def test_texts_that_are_no_unicode(api: Any) -> None:
    raw = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\3\0\0\0"), pa.py_buffer(b"\xed\xa0\x80"))
    lists = {"prompt_ids": pa.array([[1]], I32), "response_ids": pa.array([[2]], I32)}
    assert send(api, {**lists, "model": raw}).status_code == 400 and api.records() == []


@pytest.mark.parametrize("cut", [1, 8, 100, -9, -100])
def test_a_stream_that_is_cut_is_a_bad_request(api: Any, cut: int) -> None:
    answer = api.post("/steps", content=stream(two())[:cut], headers=ARROW)
    assert answer.status_code == 400 and "Arrow" in answer.json()["detail"]
    assert api.records() == []


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_bytes_are_a_server_error(api: Any, data: st.DataObject) -> None:
    body = bytearray(stream(two(logprobs=pa.array([[-1.0], None], F32), status=["ok", None])))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert api.post("/steps", content=bytes(body), headers=ARROW).status_code in (200, 400, 413, 415, 422)
