"""Turns on a WebSocket: one exchange each, and frames that pass as they are."""

from __future__ import annotations

import base64
import json
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import wsproto.events as ws
from hypothesis import given, settings
from hypothesis import strategies as st
from mitmproxy import http, websocket
from mitmproxy.test import tflow
from wsproto.frame_protocol import Opcode

from stepwell.exchange import Exchange, Frame, NoStep, Request, dialect_for, exchange_from, found_in_socket, parse
from stepwell.proxy._capture import Capture
from stepwell.proxy._flows import Call, Flows
from stepwell.proxy._sockets import SOCKET, Sockets
from stepwell.spool import Spool, SpoolReader, SpoolWriter

from .conftest import TOKEN, RunningProxy, StartProxy, StartUpstream, eventually, reply
from .sockets import Peer, connected, serving

CREATE = '{"type":"response.create","model":"m","input":"Grüße 👋"}'
CREATED = '{"type":"response.created","response":{"id":"r"}}'
DELTA = '{"type":"response.output_text.delta","delta":"\\"type\\":\\"error\\" ü"}'
DONE = '{"type":"response.completed","response":{"id":"r"}}'
TURNS = dialect_for("WEBSOCKET", "/v1/responses")
assert TURNS is not None


@pytest.fixture
def turns_proxy(start_proxy: StartProxy) -> RunningProxy:
    return start_proxy("localhost")


def _lines(exchange: Exchange) -> list[str]:
    return exchange.response.body.decode().splitlines()


@pytest.mark.parametrize("deflate", [False, True])
def test_each_turn_is_recorded_and_every_frame_arrives(
    turns_proxy: RunningProxy, upstream_ca: tuple[Path, Path], deflate: bool
) -> None:
    indented = json.dumps({"type": "response.created", "response": {}}, indent=1)
    received: list[str] = []

    def model(peer: Peer) -> None:
        for turn in range(2):
            received.append(peer.text())
            peer.say(indented)
            peer.say(DELTA * 3, pieces=3)
            peer.say(b"\x00binary")
            peer.send(ws.Ping(payload=b"p"))
            peer.say(DONE.replace('"r"', f'"r{turn}"'))
            peer.say('{"type":"late"}')
        peer.hear(ws.CloseConnection)

    user = base64.b64encode(f"run-7:{TOKEN}".encode()).decode()
    headers = ((b"session-id", b"s"), (b"X-Stepwell-Split", b"eval"), (b"content-encoding", b"gzip"))
    secrets = ((b"authorization", b"Bearer SECRET"), (b"cookie", b"SECRET"))
    with (
        serving(model, upstream_ca[1], deflate=deflate) as port,
        connected(turns_proxy, port, user=user, deflate=deflate, headers=headers + secrets) as peer,
    ):
        for turn in range(2):
            peer.say(CREATE, pieces=2)
            got = [peer.text() for _ in range(4)]
            assert got == [indented, DELTA * 3, DONE.replace('"r"', f'"r{turn}"'), '{"type":"late"}']
        peer.send(ws.CloseConnection(code=1000))
        peer.hear(ws.CloseConnection)
    assert received == [CREATE, CREATE]
    first, second = turns_proxy.exchanges(port, 2)
    for number, exchange in enumerate((first, second)):
        request, response = exchange.request, exchange.response
        assert (request.method, request.url) == ("WEBSOCKET", f"https://localhost:{port}/v1/responses")
        assert request.body == CREATE.encode()
        assert ("session-id", "s") in request.headers and ("x-stepwell-split", "eval") in request.headers
        assert "content-encoding" not in dict(request.headers)
        assert (response.status, response.end) == (101, "complete")
        assert response.headers == [("content-type", "application/x-ndjson")]
        assert _lines(exchange) == [indented.replace("\n", " "), DELTA * 3, DONE.replace('"r"', f'"r{number}"')]
        assert exchange.trajectory_id == "run-7"
        assert response.first_byte_ns is not None and request.at_ns <= response.first_byte_ns <= response.at_ns
    assert first.id != second.id
    assert b"SECRET" not in turns_proxy.spool_bytes()


def test_a_client_that_goes_in_the_middle_of_a_turn(turns_proxy: RunningProxy, upstream_ca: tuple[Path, Path]) -> None:
    def model(peer: Peer) -> None:
        peer.text()
        peer.say(CREATED)
        peer.hear(ws.CloseConnection)

    with serving(model, upstream_ca[1]) as port, connected(turns_proxy, port) as peer:
        peer.say(CREATE)
        assert peer.text() == CREATED
    (exchange,) = turns_proxy.exchanges(port)
    assert (exchange.response.end, exchange.response.status) == ("client_disconnect", 101)
    assert _lines(exchange) == [CREATED]


def test_an_upstream_that_goes_in_the_middle_of_a_turn(
    turns_proxy: RunningProxy, upstream_ca: tuple[Path, Path]
) -> None:
    def model(peer: Peer) -> None:
        peer.text()
        peer.say(CREATED)

    with serving(model, upstream_ca[1]) as port, connected(turns_proxy, port) as peer:
        peer.say(CREATE)
        assert peer.text() == CREATED
        peer.hear(ws.CloseConnection)
    (exchange,) = turns_proxy.exchanges(port)
    assert exchange.response.end == "upstream_error"
    assert _lines(exchange) == [CREATED]


def test_a_stop_drains_turns_and_not_sockets(turns_proxy: RunningProxy, upstream_ca: tuple[Path, Path]) -> None:
    """A socket may stay open for hours; what is waited for is its turn."""

    def model(peer: Peer) -> None:
        peer.text()
        peer.say(CREATED)
        peer.text()
        peer.say(DONE)
        peer.hear(ws.CloseConnection)

    control = turns_proxy.client(turns_proxy.url())

    def in_flight() -> int:
        return int(control.get("http://stepwell.invalid/health").json()["in_flight"])

    with serving(model, upstream_ca[1]) as port, connected(turns_proxy, port) as peer:
        assert eventually(lambda: in_flight() == 0)
        peer.say(CREATE)
        peer.text()
        assert in_flight() == 1
        turns_proxy.process.send_signal(signal.SIGTERM)
        peer.say('{"type":"response.cancel"}')
        assert peer.text() == DONE
        assert turns_proxy.process.wait(30) == 0
    (exchange,) = turns_proxy.exchanges(port)
    assert (exchange.response.end, _lines(exchange)) == ("complete", [CREATED, DONE])


def test_what_a_turn_comes_to(turns_proxy: RunningProxy, upstream_ca: tuple[Path, Path]) -> None:
    """As Codex does it: a warm-up, which is no step, then a turn that says only what is new."""
    message = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Grüße"}]}

    def model(peer: Peer) -> None:
        for number, output in enumerate(([], [message])):
            asked = json.loads(peer.text())
            response = {"id": f"resp_{number}", "object": "response", "model": asked["model"], "output": output}
            peer.say(json.dumps({"type": "response.created", "response": {**response, "status": "in_progress"}}))
            for index, item in enumerate(output):
                peer.say(json.dumps({"type": "response.output_item.done", "output_index": index, "item": item}))
            peer.say(json.dumps({"type": "response.completed", "response": {**response, "status": "completed"}}))

    create = {"type": "response.create", "model": "m", "input": [], "store": False}
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    with serving(model, upstream_ca[1]) as port, connected(turns_proxy, port) as peer:
        for more in ({"generate": False}, {"previous_response_id": "resp_0", "input": [asked]}):
            peer.say(json.dumps({**create, **more}))
            while "response.completed" not in peer.text():
                pass
    warm_up, turn = turns_proxy.exchanges(port, 2)
    with pytest.raises(NoStep):
        parse(warm_up)
    (step,) = parse(turn)
    assert (step.response_id, step.continues, step.status) == ("resp_1", "response:resp_0", "ok")
    assert step.response is not None and "Grüße" in json.dumps(step.response, ensure_ascii=False)


def test_a_refused_upgrade_is_no_step_and_the_way_back_is_one(
    proxy: RunningProxy, start_upstream: StartUpstream
) -> None:
    def no_sockets(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        if handler.command == "GET":
            reply(handler, b"", status=426)
        else:
            reply(handler, b'{"id": "r", "object": "response", "status": "completed", "output": []}')

    upstream = start_upstream(no_sockets)
    client, url = proxy.client(), f"{upstream.url}/v1/responses"
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "k"}
    assert client.get(url, headers=upgrade).status_code == 426
    assert client.post(url, json={"model": "m", "input": "hi"}).status_code == 200
    (exchange,) = proxy.exchanges(upstream)
    assert (exchange.request.method, exchange.dialect) == ("POST", "openai.responses")


def test_a_route_to_an_engine_that_is_asked_for_token_ids_takes_no_sockets(
    start_proxy: StartProxy, start_upstream: StartUpstream
) -> None:
    engine = start_upstream(tls=False)
    route = {"host": "api.example.com", "upstream": f"http://127.0.0.1:{engine.port}", "engine": "vllm"}
    proxy = start_proxy(routes=(route,))
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "k"}
    answer = proxy.client().get("https://api.example.com/v1/responses", headers=upgrade)
    assert (answer.status_code, engine.seen) == (426, [])
    assert "use HTTP" in answer.text


def test_other_sockets_are_relayed_and_not_recorded(turns_proxy: RunningProxy, upstream_ca: tuple[Path, Path]) -> None:
    def model(peer: Peer) -> None:
        peer.say(peer.text().upper())
        peer.hear(ws.CloseConnection)

    with (
        serving(model, upstream_ca[1]) as port,
        connected(turns_proxy, port, "/v1/realtime?model=m", subprotocols=("a",)) as peer,
    ):
        peer.say(CREATE)
        assert peer.text() == CREATE.upper()
    assert not turns_proxy.records()


# --- the parts, without a proxy ---------------------------------------------------------------------------------------------------


class Bench:
    """Sockets with a real spool behind them."""

    def __init__(self, folder: Path, limit: int = 1 << 20) -> None:
        self.path = folder / "spool" / "p.db"
        self.writer = SpoolWriter(Spool(self.path))
        self.flows = Flows()
        self.capture = Capture(self.writer, limit)
        self.sockets = Sockets(self.flows, self.capture)
        self.flow: http.HTTPFlow = tflow.twebsocketflow()
        assert self.flow.websocket is not None
        self.flow.websocket.messages.clear()
        call = Call(self.flow.id, self.flow.client_conn, "https://h/v1/responses", "t")
        call.socket = TURNS
        self.sockets.open(self.flow, call)

    def say(self, text: str | bytes, *, client: bool = False) -> None:
        assert self.flow.websocket is not None
        kind = Opcode.TEXT if isinstance(text, str) else Opcode.BINARY
        content = text.encode() if isinstance(text, str) else text
        self.flow.websocket.messages.append(websocket.WebSocketMessage(kind, client, content))
        self.sockets.message(self.flow)
        assert not self.flow.websocket.messages  # nothing piles up

    def exchanges(self) -> list[Exchange]:
        self.writer.flush(10)
        with closing(SpoolReader(self.path)) as reader:
            records = reader.read(0, limit=1000)
        ends = {record.ref: record for record in records if record.ref}
        return [exchange_from(record, ends[record.id]) for record in records if record.id in ends]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    with closing(made.writer):
        yield made


@pytest.mark.parametrize("name", ["completed", "incomplete", "failed", "cancelled"])
def test_terminal_events(bench: Bench, name: str) -> None:
    bench.say(CREATE, client=True)
    bench.say(DELTA)
    end = json.dumps({"type": f"response.{name}", "response": {"error": {"type": "x"}}})
    bench.say(end)
    assert len(bench.flows) == 0
    (exchange,) = bench.exchanges()
    assert (exchange.response.end, _lines(exchange)) == ("complete", [DELTA, end])


def test_an_error_ends_a_turn_and_one_inside_does_not(bench: Bench) -> None:
    bench.say(CREATE, client=True)
    inside = json.dumps({"sequence_number": 1, "type": "response.output_item.done", "item": {"type": "error"}})
    bench.say(inside)
    assert len(bench.flows) == 1
    bench.say('{"type": "error", "status": 400}')
    assert [len(_lines(exchange)) for exchange in bench.exchanges()] == [2]


def test_a_turn_is_ended_by_the_next_answer(bench: Bench) -> None:
    bench.say("before any turn")
    bench.say(CREATE, client=True)
    bench.say(CREATED)
    bench.say(CREATE, client=True)
    bench.say(CREATED)
    bench.say(DONE)
    assert [(exchange.response.end, _lines(exchange)) for exchange in bench.exchanges()] == [
        ("client_disconnect", [CREATED]),
        ("complete", [CREATED, DONE]),
    ]


def test_a_turn_that_is_asked_for_early_waits(bench: Bench) -> None:
    """Those of one lane are answered in their order."""
    bench.say(CREATE, client=True)
    bench.say(CREATED)
    bench.say(CREATE.replace("Grüße", "next"), client=True)
    for frame in (DELTA, DONE, CREATED, DONE):
        bench.say(frame)
    first, second = bench.exchanges()
    assert b"next" in second.request.body and b"next" not in first.request.body
    assert (_lines(first), _lines(second)) == ([CREATED, DELTA, DONE], [CREATED, DONE])


def _lane(frame: str, name: str, *, last: bool) -> str:
    member = f'"stream_id":"{name}"'
    return f"{frame[:-1]},{member}}}" if last else frame.replace(",", f",{member},", 1)


def test_lanes_are_told_apart(bench: Bench) -> None:
    far = CREATE[:-1] + ',"tools":[{"stream_id":{"type":"string"}}],"x":"' + "x" * 5000 + '"}'
    bench.say(_lane(far, "a", last=False), client=True)
    bench.say(_lane(far, "b", last=True), client=True)
    for frame in (CREATED, DELTA, DONE):
        for name in ("b", "a"):
            bench.say(_lane(frame, name, last=frame is not DELTA))
    assert len(bench.flows) == 0
    first, second = bench.exchanges()
    assert [exchange.response.end for exchange in (first, second)] == ["complete"] * 2
    assert all('"a"' in line for line in _lines(first)) and all('"b"' in line for line in _lines(second))
    assert len(_lines(first)) == len(_lines(second)) == 3


def test_a_name_that_is_no_lanes_costs_nothing(bench: Bench) -> None:
    bench.say(CREATE[:-1] + ',"metadata":{"stream_id":"mine"}}', client=True)
    for frame in (CREATED, DELTA, DONE):
        bench.say(frame)
    assert [_lines(exchange) for exchange in bench.exchanges()] == [[CREATED, DELTA, DONE]]


STEER = '{"type":"response.steer","previous_response_id":"r","input":"rather left"}'


def test_what_is_steered_is_a_turn_of_its_own(bench: Bench) -> None:
    bench.say(CREATE, client=True)
    bench.say(CREATED)
    bench.say(STEER, client=True)
    steered = '{"type":"response.incomplete","response":{"id":"r","incomplete_details":{"reason":"steered"}}}'
    successor = [frame.replace('"r"', '"r2"') for frame in (CREATED, DONE)]
    for frame in ('{"type":"response.steer.accepted"}', steered, *successor):
        bench.say(frame)
    first, second = bench.exchanges()
    assert _lines(first)[-1] == steered
    assert (second.request.body, _lines(second)) == (STEER.encode(), successor)


def test_what_was_steered_and_waits_goes_with_the_next_turn(bench: Bench) -> None:
    """The request is then two texts; what its answer does not tell makes the prompt incomplete."""
    bench.say(STEER, client=True)
    bench.say(CREATE, client=True)
    bench.say(DONE)
    (exchange,) = bench.exchanges()
    assert exchange.request.body == f"{STEER}\n{CREATE}".encode()
    (step,) = parse(exchange)
    assert step.messages is not None and [part["text"] for message in step.messages for part in message["content"]] == [
        "rather left",
        "Grüße 👋",
    ]
    assert not step.trainable and (step.untrainable_reason or "").startswith("the prompt is incomplete: ")
    bench.say(STEER, client=True)
    bench.say('{"type":"response.steer.failed"}')
    bench.say(CREATE, client=True)
    bench.say(DONE)
    assert bench.exchanges()[-1].request.body == CREATE.encode()


def test_a_client_that_only_steers_fills_no_memory(bench: Bench) -> None:
    for number in range(100):
        bench.say(STEER.replace("left", f"{number}"), client=True)
    bench.say(CREATE, client=True)
    bench.say(DONE)
    (exchange,) = bench.exchanges()
    lines = exchange.request.body.splitlines()
    assert (len(lines), lines[-1]) == (17, CREATE.encode())
    assert b"rather 84" in lines[0] and b"rather 99" in lines[-2]


def test_turns_in_flight_are_bounded(bench: Bench) -> None:
    for number in range(70):
        bench.say(_lane(CREATE, f"lane-{number}", last=True), client=True)
    assert len(bench.flows) == len(bench.flow.metadata[SOCKET].calls) == 64
    bench.sockets.close(bench.flow)
    assert len(bench.flows) == 0
    ends = Counter(exchange.response.error for exchange in bench.exchanges())
    assert sorted(ends.values()) == [6, 64]


def test_a_turn_that_a_stop_has_ended_is_ended_once(bench: Bench) -> None:
    bench.say(CREATE, client=True)
    bench.say(CREATED)
    (call,) = bench.flows
    assert call.trajectory_id == "t" and bench.flows.count("t") == 1
    bench.flows.pop(call.id)
    bench.capture.response(call, "aborted", "the proxy was stopped")
    bench.say(DONE)
    bench.sockets.close(bench.flow)
    (exchange,) = bench.exchanges()
    assert (exchange.response.end, _lines(exchange)) == ("aborted", [CREATED])


def test_what_is_kept_of_a_turn_is_bounded(tmp_path: Path) -> None:
    bench = Bench(tmp_path, limit=1000)
    with closing(bench.writer):
        bench.say(CREATE[:-2] + "x" * 2000 + '"}', client=True)
        for _ in range(100):
            bench.say(DELTA)
        bench.say(DONE)
        (exchange,) = bench.exchanges()
    assert exchange.request.truncated and exchange.response.truncated
    assert (len(exchange.request.body), len(exchange.response.body)) == (1000, 1000)


def test_a_full_spool_costs_the_turn_and_not_the_socket(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.writer.close()
    bench.say(CREATE, client=True)
    bench.say(DONE)
    assert bench.writer.lost == 1
    assert bench.capture.take_lost("t") == 1


def _frame(kind: str, **fields: Any) -> str:
    return json.dumps({"type": f"response.{kind}", **fields})


ASKED = [
    *(_frame("create", input="x", **more) for more in ({}, {"stream_id": "a"}, {"previous_response_id": "r1"})),
    *(_frame("steer", previous_response_id=id_, input="y") for id_ in ("r1", "r2")),
]
ANSWERED = [
    *(_frame("created", response={"id": id_, "previous_response_id": to}) for id_, to in (("r1", None), ("r2", "r1"))),
    *(_frame("created", response={"id": "q"}, stream_id=lane) for lane in "ab"),
    *(_frame(f"steer.{verb}", steer={"id": "s", "previous_response_id": "r1"}) for verb in ("accepted", "failed")),
    *(_frame(kind, **more) for kind in ("completed", "text.delta") for more in ({}, {"stream_id": "a"})),
]
FRAMES = st.sampled_from([(True, frame) for frame in ASKED] + [(False, frame) for frame in ANSWERED])


@settings(max_examples=20, deadline=None)
@given(st.lists(FRAMES, max_size=30))
def test_a_recording_is_cut_into_the_turns_that_capture_records(frames: list[tuple[bool, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        with closing(bench.writer):
            for client, text in frames:
                bench.say(text, client=client)
            bench.sockets.close(bench.flow)
            captured = bench.exchanges()
    upgrade = Request("GET", "https://h/v1/responses", [], b"", 1)
    recorded = [Frame(client, text.encode()) for client, text in frames]
    found = found_in_socket(upgrade, recorded, "upstream_error", "the upstream closed the socket")
    imported = [one.exchange for one in found if one.generation]

    def told(one: Exchange) -> tuple[bytes, bytes, str, str]:
        return one.request.body, one.response.body, one.response.end, one.response.error or ""

    assert sorted(map(told, captured)) == sorted(map(told, imported))
