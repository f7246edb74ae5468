"""How a call ends, in the hooks: whichever comes, once, and with nothing left in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import wsproto.events as ws
from mitmproxy import connection, http, websocket
from mitmproxy.flow import Error
from mitmproxy.test import tflow
from wsproto.frame_protocol import Opcode

from stepwell.exchange import Exchange, exchange_from
from stepwell.proxy import _addon
from stepwell.proxy._addon import StepwellAddon
from stepwell.proxy._auth import Gate
from stepwell.proxy._base import BaseUrls
from stepwell.proxy._capture import Capture
from stepwell.proxy._control import Control
from stepwell.proxy._flows import Flows
from stepwell.proxy._hosts import host_test
from stepwell.proxy._layers import FAILED
from stepwell.proxy._loops import Loops
from stepwell.proxy._route import Router
from stepwell.proxy._seen import Seen
from stepwell.proxy._upstreams import Upstreams
from stepwell.spool import Spool, SpoolReader, SpoolWriter

from .conftest import TOKEN, RunningProxy, eventually
from .sockets import Peer, connected, serving

PORTS = {"port": 8789, "run_port": 8788}


def test_sockets_to_a_decrypted_host_are_relayed(proxy: RunningProxy, upstream_ca: tuple[Path, Path]) -> None:
    def model(peer: Peer) -> None:
        for _ in range(3):
            peer.say(peer.text().upper())
        peer.hear(ws.CloseConnection)

    with serving(model, upstream_ca[1]) as port, connected(proxy, port) as peer:
        for word in ("one", "two", "three"):
            peer.say(word)
            assert peer.text() == word.upper()
    assert eventually(lambda: proxy.client(proxy.url()).get("http://stepwell.invalid/health").json()["in_flight"] == 0)


class Bench:
    """The addon with a real spool behind it, and the hooks that mitmproxy calls of a generation."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "spool" / "p.db"
        self.writer = SpoolWriter(Spool(self.path))
        self.flows = Flows()
        gate, seen = Gate(TOKEN, host="127.0.0.1", **PORTS), Seen()
        capture, upstreams = Capture(self.writer, 1 << 20), Upstreams()
        self.addon = StepwellAddon(
            watched=host_test(["llm.test"]),
            gate=gate,
            loops=Loops(PORTS.values()),
            router=Router([]),
            base=BaseUrls({}, gate, TOKEN, host="127.0.0.1", port=PORTS["port"]),
            flows=self.flows,
            capture=capture,
            control=Control(self.writer, self.path.parent, self.flows, capture, seen, upstreams),
            seen=seen,
            upstreams=upstreams,
        )

    def ask(self) -> http.HTTPFlow:
        """A generation whose answer has begun."""
        flow = tflow.tflow(req=http.Request.make("POST", "https://llm.test/v1/chat/completions", b"{}"), resp=True)
        flow.client_conn = connection.Client(peername=("127.0.0.1", 50000), sockname=("127.0.0.1", PORTS["port"]))
        answer, flow.response = flow.response, None
        self.addon.requestheaders(flow)
        if flow.response is None:
            self.addon.request(flow)
            flow.response = answer
            self.addon.responseheaders(flow)
            assert answer is not None and callable(answer.stream)
            answer.stream(b"some")
        return flow

    def ends(self) -> list[tuple[str, str | None]]:
        """How each exchange ended, and what was said of it."""
        return [(exchange.response.end, exchange.response.error) for exchange in self.exchanges()]

    def exchanges(self) -> list[Exchange]:
        self.writer.flush(10)
        with closing(SpoolReader(self.path)) as reader:
            records = reader.read(0)
        ends = {record.ref: record for record in records if record.ref}
        assert 2 * len(ends) == len(records), "each call begins once and ends once"
        return [exchange_from(record, ends[record.id]) for record in records if record.id in ends]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    with closing(made.writer):
        yield made


def test_messages_of_a_long_socket_do_not_pile_up(bench: Bench) -> None:
    flow: http.HTTPFlow = tflow.twebsocketflow()
    assert flow.websocket is not None
    for number in range(100):
        flow.websocket.messages.append(websocket.WebSocketMessage(Opcode.TEXT, True, str(number).encode()))
        bench.addon.websocket_message(flow)
        assert not flow.websocket.messages


def test_a_call_ends_once(bench: Bench) -> None:
    """Over HTTP/2 a client that has read its whole answer may still reset the stream."""
    flow = bench.ask()
    bench.addon.response(flow)
    assert len(bench.flows) == 0
    flow.error = Error("stream reset by client")
    bench.addon.error(flow)
    bench.addon.abort()
    assert bench.ends() == [("complete", None)]


@pytest.mark.parametrize(
    ("noted", "text", "end"),
    [
        ("client", "stream reset by server", "client_disconnect"),
        ("upstream", "stream reset by client", "upstream_error"),
        (None, "connection closed: error from server", "upstream_error"),
        (None, "client disconnected", "client_disconnect"),
    ],
)
def test_who_cut_a_call(bench: Bench, noted: str | None, text: str, end: str) -> None:
    flow = bench.ask()
    if noted is not None:
        flow.metadata[FAILED] = noted
    flow.error = Error(text)
    bench.addon.error(flow)
    (exchange,) = bench.exchanges()
    assert (exchange.response.end, exchange.response.error, exchange.response.body) == (end, text, b"some")


async def test_what_a_gone_client_left_is_ended(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_addon, "_GRACE", 0.0)
    left, other = bench.ask(), bench.ask()
    bench.addon.client_disconnected(left.client_conn)
    assert len(bench.flows) == 2  # mitmproxy may still end it by itself
    await asyncio.sleep(0.01)
    assert [call.id for call in bench.flows] == [other.id]
    bench.addon.response(other)
    assert sorted(end for end, _ in bench.ends()) == ["client_disconnect", "complete"]


def test_a_stop_ends_what_is_in_flight_and_takes_nothing_new(bench: Bench) -> None:
    bench.ask()
    bench.addon.abort()
    late = bench.ask()
    assert late.response is not None and late.response.status_code == 503
    bench.addon.response(late)
    assert bench.ends() == [("aborted", "the proxy was stopped")] and len(bench.flows) == 0
