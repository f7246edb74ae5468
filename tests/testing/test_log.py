from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import SettingsError
from stepwell.testing import ChatCall, Delivery, LoggedCall, Reply, ToolCall
from stepwell.testing._log import CallLog


def logged(number: int, **fields: Any) -> LoggedCall:
    values: dict[str, Any] = {
        "call_id": f"chatcmpl-{number}",
        "number": number,
        "path": "/v1/chat/completions",
        "model": "m",
        "messages": [{"role": "user", "content": "ü"}],
        "tools": (),
        "prompt_ids": [1, 2],
        "choices": [],
        "stream": False,
        "status": 200,
        "delivered": True,
        "http_version": "1.1",
        "headers": [],
    }
    return LoggedCall(**(values | fields))


def test_the_file_says_what_the_server_sampled(endpoint: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"

    def script(call: ChatCall) -> Reply:
        failing = Delivery(fail_after=5) if call.number == 1 else None
        return Reply("é", [ToolCall("f", "{}", "call_1")], delivery=failing)

    at = endpoint(script, log_path=path)
    assert at.post(model="m").status_code == 200
    # The line is there as soon as a client has its reply.
    assert len(path.read_text().splitlines()) == 1
    with pytest.raises(Exception):  # noqa: B017 - which one depends on the HTTP version; the log is the point here
        at.post(model="m")
    calls = at.server.wait_for_calls(2)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["delivered"] for line in lines] == [True, False]
    for line, call in zip(lines, calls, strict=True):
        assert line["call_id"] == call.call_id
        assert line["prompt_ids"] == call.prompt_ids
        assert line["messages"] == [{"role": "user", "content": "hi"}]
        (choice,) = line["choices"]
        assert choice["response_ids"] == call.choices[0].response_ids
        assert choice["logprobs"] == call.choices[0].logprobs
        assert choice["tool_calls"] == [{"name": "f", "arguments": "{}", "id": "call_1"}]
        assert {"request", "sent"}.isdisjoint(line)


def test_credentials_stay_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    log = CallLog(path)
    secrets = ["authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"]
    log.add(logged(0, headers=[("host", "engine"), *[(name, "hunter2") for name in secrets]]))
    assert "hunter2" not in path.read_text()
    assert "hunter2" not in repr(log.snapshot())
    assert json.loads(path.read_text())["headers"] == [["host", "engine"], *[[name, "[redacted]"] for name in secrets]]
    assert dict(log.snapshot()[0].headers)["authorization"] == "hunter2"


def test_the_newest_calls_are_kept() -> None:
    log = CallLog(keep=2)
    for number in range(5):
        log.add(logged(number))
    assert [call.number for call in log.snapshot()] == [3, 4]
    assert [call.number for call in log.wait_for(5, timeout=0)] == [3, 4]


def test_waiting_for_calls() -> None:
    log = CallLog()
    with pytest.raises(TimeoutError, match="0 of 1 calls"):
        log.wait_for(1, timeout=0.01)
    writers = [threading.Thread(target=log.add, args=(logged(number),)) for number in range(3)]
    for writer in writers:
        writer.start()
    assert {call.number for call in log.wait_for(3, timeout=10)} == {0, 1, 2}
    for writer in writers:
        writer.join()


def test_a_log_file_is_appended_to(tmp_path: Path) -> None:
    for number in range(2):
        CallLog(tmp_path / "calls.jsonl").add(logged(number))
    assert len((tmp_path / "calls.jsonl").read_text().splitlines()) == 2


def test_a_log_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="choose another file"):
        CallLog(tmp_path / "nowhere" / "calls.jsonl")
