"""The stream over HTTP: what it says, where it goes on, and that it lets go."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
import uvicorn
from tests.gateway.running import started
from tests.gateway.scene import TOKEN, Scene, step

from stepwell.gateway import _stream
from stepwell.gateway._problems import Problem
from stepwell.gateway._stream import Streams
from stepwell.warehouse import Ingest, Warehouse

Event = dict[str, Any]


def events_in(lines: Iterator[str]) -> Iterator[Event]:
    """What a client makes of the lines of a stream."""
    event: Event = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if not line and event:
            yield event
            event = {}
        elif name:
            event[name] = json.loads(value) if name == "data" else value


def until_the_end(scene: Scene, **parameters: Any) -> list[Event]:
    answer = scene.get("/stream", follow=False, **parameters)
    assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (200, "text/event-stream")
    return list(events_in(iter(answer.text.splitlines())))


@pytest.fixture(name="scene")
def _scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.close()


def ids(events: list[Event]) -> list[str]:
    return [event["data"].get("step_id") or event["data"].get("event_id") for event in events]


def test_steps_and_events_and_where_to_go_on(scene: Scene) -> None:
    scene.put("/steps", step("a", "t\u2028x\x85", 0, reward=1.0), step("b", "t\u2028x\x85", 1))
    scene.commit()
    first = until_the_end(scene, since_commit=0)
    assert [event["event"] for event in first] == ["position", "step", "step", "event"]
    assert first[0]["data"] == {"commit": 0} and first[0]["retry"] == "2000"
    assert ids(first[1:]) == ["a", "b", "a.reward"]
    assert (first[1]["data"]["trajectory_id"], first[1]["data"]["step_reward"]) == ("t\u2028x\x85", 1.0)
    assert first[3]["data"]["payload"] is None and "prompt_ids" not in first[1]["data"]

    scene.put("/steps", step("c", "t\u2028x\x85", 2))
    scene.commit()
    assert ids(until_the_end(scene, cursor=first[2]["id"])[1:]) == ["a.reward", "c"]
    assert ids(until_the_end(scene, since_commit=1)[1:]) == ["c"]
    scene.http.headers["last-event-id"] = first[3]["id"]  # counts more than the address, which a client repeats
    assert ids(until_the_end(scene, cursor=first[0]["id"])[1:]) == ["c"]
    assert [event["event"] for event in until_the_end(scene)] == ["position", "step"]
    del scene.http.headers["last-event-id"]
    (now,) = until_the_end(scene)
    assert now["data"] == {"commit": 2} and ids(until_the_end(scene, cursor=now["id"])[1:]) == []


@pytest.mark.parametrize(
    "parameters",
    [{"cursor": "x"}, {"cursor": "WzEsImEiXQ"}, {"since_commit": 9}, {"since_commit": -1}, {"follow": "maybe"},
     {"since_commit": 2**70}, {"cursor": "x" * 5000}],
)  # fmt: skip
def test_what_cannot_be_begun_is_a_problem(scene: Scene, parameters: dict[str, Any]) -> None:
    answer = scene.get("/stream", **parameters)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert scene.app.state.streams.clients == 0


def test_only_so_many_listen(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stream, "MOST_CLIENTS", 1)
    streams: Streams = scene.app.state.streams
    with streams.one():
        answer = scene.get("/stream", follow=False)
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        with pytest.raises(Problem), streams.one():
            pass
    assert scene.get("/stream", follow=False).status_code == 200 and streams.clients == 0


def test_a_failure_later_is_the_last_event(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.put("/steps", step("a", "t", 0))
    scene.commit()
    start = until_the_end(scene)[0]["id"]
    scene.put("/steps", step("b", "t", 1))
    scene.commit()
    monkeypatch.setattr("stepwell.gateway._stream_feed.STEP", "SELECT nothing_such FROM steps")
    said = until_the_end(scene, cursor=start)
    assert [event["event"] for event in said] == ["position", "problem"]
    assert said[1]["data"]["status"] == 503 and "nothing_such" in said[1]["data"]["detail"] and "id" not in said[1]


@contextmanager
def served(scene: Scene) -> Iterator[httpx2.Client]:
    """The application on a socket, in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(scene.app, log_config=None, lifespan="off", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/api/v1"
    with httpx2.Client(base_url=url, headers={"authorization": f"Bearer {TOKEN}"}, timeout=30) as http:
        yield http
    scene.app.state.streams.ending = True
    server.should_exit = True
    thread.join()
    listener.close()


def test_live_cut_off_and_again(scene: Scene) -> None:
    streams: Streams = scene.app.state.streams
    scene.put("/steps", step("a", "t", 0))
    scene.commit()
    with served(scene) as http:
        with http.stream("GET", "/stream") as answer:
            events = events_in(answer.iter_lines())
            assert next(events)["data"] == {"commit": 1}
            for name in ("b", "c"):
                scene.put("/steps", step(name, "t", 1))
                scene.commit()
                seen = next(events)
                assert seen["data"]["step_id"] == name
            assert streams.clients == 1
        scene.put("/steps", step("d", "t", 2))
        scene.commit()
        with http.stream("GET", "/stream", headers={"last-event-id": seen["id"]}) as answer:
            events = events_in(answer.iter_lines())
            assert (next(events)["event"], next(events)["data"]["step_id"]) == ("position", "d")
        deadline = time.monotonic() + 20
        while streams.clients and time.monotonic() < deadline:
            time.sleep(0.02)
        assert streams.clients == 0  # who went away holds no place


def test_an_idle_stream_is_kept_alive(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastapi.routing._PING_INTERVAL", 0.05)
    with served(scene) as http, http.stream("GET", "/stream") as answer:
        lines = (line for line in answer.iter_lines() if line)
        assert any(line.startswith(":") for line in lines)


def test_a_gateway_that_ends_lets_its_clients_go(tmp_path: Path, token: str) -> None:
    Ingest(Warehouse.open(tmp_path / "warehouse"), tmp_path / "spool").close()
    process, port = started(tmp_path, token)
    try:
        url, headers = f"http://127.0.0.1:{port}/api/v1/stream", {"authorization": f"Bearer {token}"}
        with httpx2.stream("GET", url, headers=headers, timeout=30) as answer:
            events = events_in(answer.iter_lines())
            assert next(events)["event"] == "position"
            process.send_signal(signal.SIGTERM)
            assert list(events) == []  # ended as a stream ends, not cut off
        assert process.stdout is not None and process.stdout.readline() == "put away\n" and process.wait() == 0
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.communicate()
