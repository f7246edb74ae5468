"""Trajectories opened and ended through the proxy."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler

import httpx2
import pytest

from stepwell.proxy import CONTROL_HOST
from stepwell.sdk.records import Trajectory
from stepwell.spool import Entry, Spool

from .conftest import REPLY_BYTES, RunningProxy, StartProxy, StartUpstream, reply

OPEN = f"http://{CONTROL_HOST}/trajectories"
END = f"http://{CONTROL_HOST}/trajectories/end"
HEALTH = f"http://{CONTROL_HOST}/health"


def _trajectories(proxy: RunningProxy, id: str) -> list[Trajectory]:
    found = [Trajectory.model_validate_json(r.body) for r in proxy.records() if r.kind == "trajectory"]
    return [trajectory for trajectory in found if trajectory.trajectory_id == id]


def test_open_then_end_waits_for_calls_in_flight_and_marks_what_belongs_to_it(
    start_proxy: StartProxy, start_upstream: StartUpstream
) -> None:
    asked, answer_now = threading.Event(), threading.Event()

    def slow(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        asked.set()
        assert answer_now.wait(20)
        reply(handler, REPLY_BYTES)

    upstream = start_upstream(slow)
    proxy = start_proxy("localhost")
    with Spool(proxy.spool.parent / "sdk.db") as other:
        other.append([Entry(id=str(n), kind="step") for n in range(7)])
        producer = other.producer
    client = proxy.client(proxy.url("t-1"))
    assert client.post(OPEN, json={"trajectory_id": "t-1", "group_id": "g"}).status_code == 200
    call = threading.Thread(
        target=lambda: proxy.client(proxy.url("t-1")).post(f"{upstream.url}/v1/chat/completions", json={"messages": []})
    )
    call.start()
    assert asked.wait(20)
    threading.Timer(0.3, answer_now.set).start()
    ended = client.post(END, json={"trajectory_id": "t-1", "state": "completed", "reason": "exit 0"})
    call.join(20)
    assert ended.status_code == 200
    first, last = _trajectories(proxy, "t-1")
    assert (first.state, first.group_id, last.state, last.reason) == ("open", "g", "completed", "exit 0")
    assert first.at is not None and last.at is not None
    assert last.marks is not None and last.marks == ended.json()["marks"]
    kinds = {record.seq: record.kind for record in proxy.records()}
    own = next(mark for name, mark in last.marks.items() if name.startswith("proxy-"))
    assert kinds[own] == "exchange.response"  # its last call lies below the mark
    assert last.marks[producer] == 7
    assert ended.json()["in_flight"] == 0


def test_the_end_says_how_many_generations_were_forwarded(
    start_proxy: StartProxy, start_upstream: StartUpstream
) -> None:
    upstream, proxy = start_upstream(), start_proxy("localhost")
    client = proxy.client(proxy.url("counted"))
    opened = client.post(OPEN, json={"trajectory_id": "counted"}).json()
    assert opened["upstream_proxy"] is None
    for path in ("/v1/chat/completions", "/v1/models", "/v1/chat/completions"):
        client.post(f"{upstream.url}{path}", json={"messages": []}).raise_for_status()
    for _ in range(2):  # an answer that got lost on its way is asked for again
        end = client.post(
            END, json={"trajectory_id": "counted", "state": "completed"}, headers={"idempotency-key": "k"}
        )
        assert end.json()["calls"] == 2
    body = {"trajectory_id": "never opened", "state": "completed"}
    assert proxy.client(proxy.url("never opened")).post(END, json=body).json()["calls"] is None


def test_a_trajectory_may_be_opened_again_and_a_request_repeated(proxy: RunningProxy) -> None:
    client = proxy.client(proxy.url("again"))
    for _ in range(2):
        client.post(OPEN, json={"trajectory_id": "again"}).raise_for_status()
    assert len(_trajectories(proxy, "again")) == 2
    numbers = {
        client.post(OPEN, json={"trajectory_id": "again"}, headers={"idempotency-key": "k"}).json()["number"]
        for _ in range(2)
    }
    assert len(numbers) == 1
    assert len(_trajectories(proxy, "again")) == 3


def test_marks_of_producers_elsewhere_are_kept(proxy: RunningProxy) -> None:
    body = {"trajectory_id": "m", "state": "failed", "marks": {"elsewhere": 12}}
    marks = proxy.client(proxy.url("m")).post(END, json=body).json()["marks"]
    assert marks["elsewhere"] == 12 and len(marks) >= 2


@pytest.mark.parametrize(
    ("url", "body", "status", "field"),
    [
        (OPEN, b"{", 400, None),
        (OPEN, b'{"trajectory_id": ""}', 422, "trajectory_id"),
        (OPEN, b'{"trajectory": "x"}', 422, "trajectory"),
        (OPEN, b'{"trajectory_id": "x", "state": "completed"}', 422, "state"),
        (END, b'{"trajectory_id": "x"}', 422, "state"),
        (END, b'{"trajectory_id": "x", "state": "done"}', 422, "state"),
        (OPEN, b'"' + b"x" * (5 << 20) + b'"', 413, None),
        (OPEN + "/other", b"{}", 404, None),
        (HEALTH, b"", 405, None),
    ],
)
def test_problems(proxy: RunningProxy, url: str, body: bytes, status: int, field: str | None) -> None:
    answer = proxy.client(proxy.url("x")).post(url, content=body)
    assert answer.status_code == status == answer.json()["status"]
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json().get("field") == field
    assert answer.json()["detail"]


def test_a_full_spool_is_said(start_proxy: StartProxy) -> None:
    proxy = start_proxy(max_spool_bytes=1 << 20)
    body = {"trajectory_id": "t", "metadata": {"x": "y" * (1 << 20)}}
    answer = proxy.client(proxy.url("t")).post(OPEN, json=body)
    assert answer.status_code == 503
    assert "bytes" in answer.json()["detail"]


def test_the_end_says_how_many_calls_were_lost(start_proxy: StartProxy, start_upstream: StartUpstream) -> None:
    upstream = start_upstream()
    proxy = start_proxy("localhost", max_spool_bytes=1 << 20)
    url = f"{upstream.url}/v1/chat/completions"
    for name, sizes in [("gap", (1 << 20, 10, 1 << 20)), ("other", (1 << 20,)), ("whole", (10,))]:
        for size in sizes:
            proxy.client(proxy.url(name)).post(url, json={"messages": [], "padding": "x" * size}).raise_for_status()
    proxy.client().post(url, json={"messages": [], "padding": "x" * (1 << 20)}).raise_for_status()  # of nobody
    for name in ("gap", "whole", "gap", "other"):
        body = {"trajectory_id": name, "state": "completed"}
        proxy.client(proxy.url(name)).post(END, json=body).raise_for_status()
    lost = {name: [end.lost for end in _trajectories(proxy, name)] for name in ("gap", "other", "whole")}
    assert lost == {"gap": [2, None], "other": [1], "whole": [None]}


def test_an_end_that_could_not_be_kept_takes_no_losses_with_it(
    start_proxy: StartProxy, start_upstream: StartUpstream
) -> None:
    upstream = start_upstream()
    proxy = start_proxy("localhost", max_spool_bytes=1 << 20)
    client, padding = proxy.client(proxy.url("t")), "x" * (1 << 20)
    url = f"{upstream.url}/v1/chat/completions"
    client.post(url, json={"messages": [], "padding": padding}).raise_for_status()
    body = {"trajectory_id": "t", "state": "failed"}
    assert client.post(END, json={**body, "metadata": {"x": padding}}).status_code == 503
    client.post(END, json={**body, "lost": 3}).raise_for_status()
    assert [end.lost for end in _trajectories(proxy, "t")] == [4]


def test_only_with_credentials_and_on_the_port_for_them(proxy: RunningProxy) -> None:
    assert proxy.client(proxy.url("x", "wrong")).get(HEALTH).status_code == 407
    address = f"127.0.0.1:{proxy.ports['port']}"
    for credentials in ("", "x:the-token-of-this-installation@"):
        assert proxy.client(f"http://{credentials}{address}").get(HEALTH).status_code == 403
    with pytest.raises(httpx2.ProxyError, match="403"):
        proxy.client(proxy.url("x")).get(HEALTH.replace("http:", "https:"))


def test_health(proxy: RunningProxy) -> None:
    health = proxy.client(proxy.url()).get(HEALTH).json()
    assert health.keys() == {"version", "in_flight", "pending", "lost", "upstream_proxy"}
    assert json.dumps(health)
