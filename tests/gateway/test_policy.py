from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stepwell.errors import SpoolError
from stepwell.exchange import Declared, exchange_from
from stepwell.gateway import _declarations
from stepwell.gateway._declarations import Declarations
from stepwell.sdk.records import Step

STEP: dict[str, Any] = {"prompt_ids": [1], "response_ids": [2]}
SECOND = 1_000_000_000
MOST = 20


def put(api: Any, body: Any) -> Any:
    return api.http.put("/api/v1/policy", json=body)


def test_what_was_declared_last(api: Any) -> None:
    assert api.get("/policy").status_code == 404
    first = put(api, {"name": "p", "version": 3})
    assert first.status_code == 200 and first.json().items() >= {"name": "p", "version": 3, "label": None}.items()
    assert put(api, {"name": "p", "version": 3}).json() == first.json()  # nothing changed, nor did the time
    put(api, {"name": "p", "version": -(2**63), "label": "step-4"})
    assert api.get("/policy").json().items() >= {"version": -(2**63), "label": "step-4"}.items()
    kept = json.loads((api.folder / "policy.json").read_bytes())
    assert [one["version"] for one in kept["declared"]] == [3, -(2**63)] and kept["format"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"version": 1}, "name"),
        ({"name": "", "version": 1}, "name"),
        ({"name": "p"}, "version"),
        ({"name": "p", "version": 2**63}, "version"),
        ({"name": "p", "version": "1"}, "version"),
        ({"name": "p", "version": True}, "version"),
        ({"name": "p", "version": 1, "label": ""}, "label"),
        ({"name": "p", "version": 1, "more": 1}, "more"),
        ([], ""),
    ],
)
def test_what_is_wrong_is_named(api: Any, body: Any, field: str) -> None:
    answer = put(api, body)
    assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_steps_that_say_nothing_carry_it(api: Any) -> None:
    put(api, {"name": "p", "version": 3, "label": "L"})
    api.post("/steps", STEP)
    api.post("/steps", [{**STEP, "policy": "own"}, {**STEP, "policy_version": 9}, {**STEP, "policy_label": "x"}])
    alone, own, said, labelled = api.steps()
    assert (alone.policy, alone.policy_version, alone.policy_label) == ("p", 3, "L")
    assert (own.policy, own.policy_version) == ("own", 3)
    assert (said.policy_version, said.policy_label, labelled.policy_version) == (9, None, None)


def test_arrow_rows_too(api: Any) -> None:
    put(api, {"name": "p", "version": 3})
    lists = pa.list_(pa.int32())
    batch = pa.RecordBatch.from_pydict({"prompt_ids": pa.array([[1]], lists), "response_ids": pa.array([[2]], lists)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    api.post("/steps", content=sink.getvalue().to_pybytes(), headers=headers)
    assert [(step.policy, step.policy_version, step.prompt_ids) for step in api.steps()] == [("p", 3, [1])]


def test_a_step_across_two_versions_is_of_none(api: Any) -> None:
    put(api, {"name": "p", "version": 3})
    began = datetime.now(UTC)
    time.sleep(0.01)
    put(api, {"name": "p", "version": 4, "label": "four"})
    ended = datetime.now(UTC)
    times = {"started_at": began.isoformat(), "finished_at": ended.isoformat()}
    api.post("/steps", {**STEP, **times})
    api.post("/steps", {**STEP, "started_at": times["started_at"]})
    api.post(
        "/steps", {**STEP, "started_at": (began - timedelta(days=1)).isoformat(), "finished_at": times["finished_at"]}
    )
    mixed, before, unknown = api.steps()
    assert (mixed.policy_version, mixed.policy_label, mixed.trainable) == (None, "3..four", False)
    assert mixed.untrainable_reason == "sampled by several policy versions: 3..four"
    assert (before.policy_version, before.trainable) == (3, True)
    assert (unknown.policy, unknown.policy_version, unknown.policy_label) == (None, None, None)


def test_exchanges_carry_what_held_when_they_began_and_ended(api: Any) -> None:
    put(api, {"name": "p", "version": 3})
    now = time.time_ns()
    api.post(
        "/exchanges",
        {
            "url": "http://llm/v1/chat/completions",
            "request_body": "{}",
            "started_ns": now - 3600 * SECOND,
            "finished_ns": now + 3600 * SECOND,  # a clock that is ahead
        },
    )
    request, response = api.records()
    exchange = exchange_from(request, response)
    assert (exchange.declared, exchange.response.declared) == (None, Declared("p", 3))


def test_declarations_survive_and_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_declarations, "MOST", MOST)
    path, now = tmp_path / "data" / "policy.json", [100]
    known = Declarations(path, clock=lambda: now[0])
    for version in range(MOST + 5):
        now[0] = 100 + version
        known.declare(Declared("p", version))
    again = Declarations(path)
    assert again.now() == known.now() == (Declared("p", MOST + 4), MOST + 104)
    assert (again.at(104), again.at(105), again.at(10**18)) == (None, Declared("p", 5), Declared("p", MOST + 4))
    now[0] = 50  # the clock was set back: what is declared now is still the newest
    assert known.declare(Declared("p", -1)) == (Declared("p", -1), MOST + 105)
    assert Declarations(path).now() == (Declared("p", -1), MOST + 105)


def test_a_step_from_a_clock_that_is_ahead_gets_what_holds_now() -> None:
    known = Declarations(clock=lambda: 2_000_000_000 * SECOND)
    known.declare(Declared("p", 1))
    later = datetime.fromtimestamp(2_000_000_100, UTC)
    assert known.stamp(Step(**STEP, started_at=later, finished_at=later)).policy_version == 1


def test_a_file_that_cannot_be_read_or_written(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "policy.json"
    for text in ("{", "[]", '{"declared": 1}', '{"declared": [1, {"name": 1}, {"name": "p", "version": 1}]}'):
        path.write_text(text)
        assert Declarations(path).now() is None
    assert "policy" in caplog.text
    (tmp_path / "file").write_text("")
    known = Declarations(tmp_path / "file" / "policy.json")
    with pytest.raises(SpoolError):
        known.declare(Declared("p", 1))
    assert known.now() is None
