"""Values that clients get wrong, by every way in: each is refused by its field's name, and spares its neighbour, or is kept as it was."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from stepwell.gateway import GatewayConfig
from stepwell.gateway._rows import JSON, LISTS, TIMES
from stepwell.sdk.records import Step

JSON_BODY = {"content-type": "application/json"}
LINES = {"content-type": "application/x-ndjson"}
ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
PLAIN = '"prompt_ids":[1],"response_ids":[2]'

REFUSED = [
    ('{"prompt_ids":[1],"response_ids":[2],"reward":NaN}', "reward"),
    ('{"prompt_ids":[1],"response_ids":[2],"reward":1e999}', "reward"),
    ('{"prompt_ids":[1],"response_ids":[2],"logprobs":[-Infinity]}', "logprobs[0]"),
    ('{"prompt_ids":[1],"response_ids":[2],"metadata":{"a":NaN}}', "metadata"),
    ('{"prompt_ids":[1],"response_ids":[2],"metadata":{"a":"\\ud800"}}', "metadata"),
    ('{"prompt_ids":[1],"response_ids":[2],"model":"\\udfff"}', "model"),
    ('{"prompt_ids":[1],"response_ids":[2],"\\ud800":1}', ""),  # a name that is no text has no name
    ('{"prompt_ids":[1],"response_ids":[2],"metadata":{"a":18446744073709551616}}', "metadata"),
    ('{"prompt_ids":[1],"response_ids":[2],"metadata":{"a":' + "[" * 150 + "]" * 150 + "}}", "metadata"),
    ('{"prompt_ids":[1],"response_ids":[2],"metadata":{"a":' + "[" * 400 + "]" * 400 + "}}", "metadata"),
    ('{"prompt_ids":[1],"response_ids":[' + "9" * 4000 + "]}", "response_ids[0]"),
    ('{"prompt_ids":[1],"response_ids":[2],"policy_version":9223372036854775808}', "policy_version"),
    ('{"prompt_ids":[1],"response_ids":[2],"step_id":5}', "step_id"),
    ('{"prompt_ids":[1],"response_ids":[2],"started_at":"2026-01-01T00:00:00"}', "started_at"),
    # Wrong lengths, types, names.
    ('{"prompt_ids":[1],"response_ids":[2,3],"logprobs":[-1]}', "logprobs"),
    ('{"prompt_ids":[1],"response_ids":[2],"logprobs":[]}', "logprobs"),
    ('{"prompt_ids":[1],"response_ids":[true]}', "response_ids[0]"),
    ('{"prompt_ids":["1"],"response_ids":[2]}', "prompt_ids[0]"),
    ('{"prompt_ids":[1.5],"response_ids":[2]}', "prompt_ids[0]"),
    ('{"prompt_ids":[2147483648],"response_ids":[2]}', "prompt_ids[0]"),
    ('{"prompt_ids":[-1],"response_ids":[2]}', "prompt_ids[0]"),
    ('{"prompt_ids":{"0":1},"response_ids":[2]}', "prompt_ids"),
    ('{"prompt_ids":[1],"response_ids":[2],"reward":"1"}', "reward"),
    ('{"prompt_ids":[1],"response_ids":[2],"reward":true}', "reward"),
    ('{"prompt_ids":[1],"response_ids":[2],"trainable":"perhaps"}', "trainable"),
    ('{"prompt_ids":[1],"response_ids":[2],"metadata":[]}', "metadata"),
    ('{"prompt_ids":[1],"response_ids":[2],"messages":{}}', "messages"),
    ('{"prompt_ids":[1],"response_ids":[2],"colour":"red"}', "colour"),
    ('{"prompt_ids":[1],"response_ids":[2],"started_at":1e300}', "started_at"),
]
KEPT: list[dict[str, Any]] = [
    {"started_at": "2030-01-01T00:00:00Z", "finished_at": "1970-01-01T00:00:00Z"},  # a clock that was set back
    {"started_at": "0001-01-02T00:00:00Z", "finished_at": "9999-12-30T23:59:59.999999Z"},
    {"first_token_at": "2026-01-01T12:00:00.123456+14:00"},
    {"policy_version": 2**63 - 1},
    {"policy_version": -(2**63)},
    {"metadata": {"most": 2**64 - 1, "least": -(2**63), "no": None, "zero": "\u0000", "text": "👩🏽‍🚀\u2028"}},
    {"metadata": {"deep": json.loads("[" * 90 + "]" * 90)}},
    {"logprobs": [0]},
    {"reward": -1e300},
]


def _as_lines(*texts: str) -> bytes:
    return b"\n".join(text.encode() for text in texts)


def _as_array(*texts: str) -> bytes:
    return f"[{','.join(texts)}]".encode()


@pytest.mark.parametrize(("form", "headers"), [(_as_array, JSON_BODY), (_as_lines, LINES)])
@pytest.mark.parametrize(("text", "field"), REFUSED)
def test_what_is_wrong_is_named_and_spares_its_neighbour(
    api: Any, form: Any, headers: dict[str, str], text: str, field: str
) -> None:
    answer = api.post("/steps", content=form(text, f'{{"step_id":"good",{PLAIN}}}'), headers=headers)
    assert answer.status_code == 200
    bad, good = answer.json()["items"]
    assert (bad["status"], bad["field"], good["status"]) == ("refused", field, "accepted")
    assert [step.step_id for step in api.steps()] == ["good"]


@pytest.mark.parametrize(("form", "headers"), [(_as_array, JSON_BODY), (_as_lines, LINES), (None, ARROW)])
@pytest.mark.parametrize("said", KEPT)
@pytest.mark.parametrize("alone", [True, False])
def test_what_is_unusual_is_kept(
    api: Any, form: Any, headers: dict[str, str], said: dict[str, Any], alone: bool
) -> None:
    values = {"step_id": "s", "prompt_ids": [1], "response_ids": [2], **said}
    some = [values] if alone else [values, {**values, "step_id": "other"}]
    body = _arrow(some) if form is None else form(*map(json.dumps, some))
    answer = api.post("/steps", content=body, headers=headers)
    assert {item["status"] for item in answer.json()["items"]} == {"accepted"}, answer.text
    kept, wanted = api.steps()[0], Step.model_validate_json(json.dumps(values))
    assert kept.model_dump() == wanted.model_dump()


def _arrow(some: list[dict[str, Any]]) -> bytes:
    columns: dict[str, pa.Array] = {}
    for name in some[0]:
        values = [one[name] for one in some]
        if name in TIMES:
            at = [datetime.fromisoformat(value).astimezone(UTC) for value in values]
            columns[name] = pa.array(at, pa.timestamp("us", "UTC"))
        elif name in JSON:
            columns[name] = pa.array([json.dumps(value) for value in values])
        else:
            columns[name] = pa.array(values, pa.list_(pa.from_numpy_dtype(LISTS[name])) if name in LISTS else None)
    batch, sink = pa.RecordBatch.from_pydict(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("headers", [JSON_BODY, LINES, ARROW])
def test_a_hundred_megabytes_are_refused(api: Any, headers: dict[str, str]) -> None:
    answer = api.post("/steps", content=bytes(100 << 20), headers=headers)
    assert answer.status_code == 413 and "gateway.max_body_bytes" in answer.json()["detail"]
    assert answer.headers["connection"] == "close" and api.records() == []


@pytest.mark.parametrize("headers", [JSON_BODY, LINES])
@pytest.mark.parametrize(
    ("path", "text", "field"),
    [
        ("/feedback", '{"step_id":"s","reward":NaN}', "reward"),
        ("/feedback", '{"step_id":"s","reward":1e999}', "reward"),
        ("/feedback", '{"step_id":"s","rating":4,"scale":-Infinity}', "scale"),
        ("/feedback", '{"step_id":"s","comment":"\\ud800"}', "comment"),
        ("/feedback", '{"step_id":"s","reward":1,"colour":1}', "colour"),
        ("/feedback", '{"step_id":"s","correction":{"a":' + "[" * 150 + "]" * 150 + "}}", "correction"),
        ("/feedback", '{"step_id":"s","reward":1,"at":"yesterday"}', "at"),
        ("/trajectories", '{"trajectory_id":"\\udfff"}', "trajectory_id"),
        ("/trajectories", '{"trajectory_id":"t","policy_version":9223372036854775808}', "policy_version"),
        ("/trajectories", '{"trajectory_id":"t","metadata":{"a":-Infinity}}', "metadata"),
        ("/trajectories", '{"trajectory_id":"t","state":"done"}', "state"),
        ("/events", '{"step_id":"s","type":"reward","value":NaN}', "value"),
        ("/events", '{"step_id":"s","type":"edited","text":"\\ud800"}', "text"),
        ("/events", '{"step_id":"s","type":"copied","metadata":{"a":18446744073709551616}}', "metadata"),
        ("/exchanges", '{"url":"http://x/v1/messages","request_body":"{}","started_ns":9223372036854775808,"finished_ns":1}',
         "started_ns"),
        ("/exchanges", '{"url":"http://x/v1/messages","request_body":"\\ud800","started_ns":1,"finished_ns":1}', "request_body"),
    ],
)  # fmt: skip
def test_other_records(api: Any, headers: dict[str, str], path: str, text: str, field: str) -> None:
    answer = api.post(path, content=text.encode(), headers=headers)
    assert answer.status_code == 422
    (item,) = answer.json()["items"]
    assert (item["status"], item["field"].partition(".")[0]) == ("refused", field) and api.records() == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/steps", {"prompt_ids": [1], "response_ids": [2]}),
        ("/feedback", {"step_id": "s", "reward": 1}),
        ("/trajectories", {"trajectory_id": "t"}),
        ("/trajectories/t/complete", None),
        ("/exchanges", {"url": "http://x/v1/messages", "request_body": "{}", "started_ns": 2, "finished_ns": 1}),
        ("/events", {"step_id": "s", "type": "copied"}),
    ],
)
def test_a_full_spool_takes_nothing_by_any_way(api_of: Any, path: str, value: Any) -> None:
    api = api_of(GatewayConfig(), max_spool_bytes=1)
    answer = api.post(path, value)
    assert (answer.status_code, answer.headers["content-type"]) == (503, "application/problem+json")
    assert int(answer.headers["retry-after"]) > 0 and api.records() == []
