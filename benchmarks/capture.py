"""What parsing costs, by dialect; whether its time is linear; whether the proxy's memory stays flat on one HTTP/2 connection.

    python benchmarks/capture.py [--json] [--rounds 15] [--stream-mb 50] [--exchanges 50000]

Times are processor time. Throughput: one plain and one streamed call per dialect (see `traffic`), MB of request and answer per
second, and steps per second. Linearity: the slope of log time over log size of streams in events of 100 bytes, of the dialect that does
worst; 1 is linear. Memory: growth of the proxy's resident set over so many calls on a single connection of the agent's, HTTP/2 on both
sides, after a warm-up, while the spool is drained as ingest drains it. Parts run as processes of their own, as in `proxy.py`.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import json
import math
import os
import socket
import ssl
import statistics
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1]))

from benchmarks.proxy import ANSWER, ASK, ASK_STREAM, TOKEN, Part, certificates
from benchmarks.traffic import ARGUMENTS, PLAIN, WIRES, Wire, exchanges, long_stream

from stepwell.exchange import Exchange, parse
from stepwell.sdk.records import Step

WARM_UP = 2_000
SLICE = 1_000
STREAMS = 16
"""Calls in flight at once on the one connection."""
EVENTS = 20
DELTA = (
    b'data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1760000000,"model":"bench",'
    b'"choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}\n\n'
)
DONE = b"data: [DONE]\n\n"
KINDS = [ASK, ASK, ASK, ASK_STREAM]


# --- parsing ----------------------------------------------------------------------------------------------------------------------


def _seconds(exchange: Exchange) -> tuple[float, Step]:
    start = time.process_time()
    (step,) = parse(exchange)
    return time.process_time() - start, step


def _check(wire: Wire, step: Step) -> None:
    """What is measured must be a whole answer that was read rightly."""
    parts = (step.response or {})["content"]
    text = "".join(part["text"] for part in parts if part["type"] == "text")
    arguments = [part["arguments"] for part in parts if part["type"] == "tool_call"]
    assert step.status == "ok" and text == PLAIN and arguments in ([], [ARGUMENTS]), f"{wire.name}: read wrongly"
    assert step.messages, f"{wire.name}: no messages"


def throughput(rounds: int) -> dict[str, dict[str, float]]:
    """By dialect; one that is there in two forms (chat: with and without token ids) as both together. The forms take turns."""
    calls = [(wire, exchange) for wire in WIRES for exchange in exchanges(wire)]
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for (wire, exchange), seconds in zip(calls, times, strict=True):
            took, step = _seconds(exchange)
            _check(wire, step)
            seconds.append(took)
    figures: dict[str, dict[str, float]] = {}
    for name in dict.fromkeys(wire.name for wire in WIRES):
        own = [
            (statistics.median(seconds), len(exchange.request.body) + len(exchange.response.body), place % 2)
            for place, ((wire, exchange), seconds) in enumerate(zip(calls, times, strict=True))
            if wire.name == name
        ]
        whole = sum(seconds for seconds, _, _ in own)
        figures[name] = {
            "mb_per_s": sum(size for _, size, _ in own) / whole / 1e6,
            "steps_per_s": len(own) / whole,
            "ms_plain": statistics.mean(seconds for seconds, _, streamed in own if not streamed) * 1e3,
            "ms_streamed": statistics.mean(seconds for seconds, _, streamed in own if streamed) * 1e3,
        }
    return figures


def linearity(megabytes: float) -> dict[str, float]:
    """By dialect, the slope of log time over log size at an eighth, a quarter, a half and all of so many MB."""
    sizes = [int(megabytes * 1e6 / part) for part in (8, 4, 2, 1)]
    slopes: dict[str, float] = {}
    gc.collect()
    gc.freeze()  # what this program holds besides would be walked through more often the longer a stream is
    for wire in {wire.name: wire for wire in reversed(WIRES)}.values():
        times = []
        for size in sizes:
            exchange = long_stream(wire, size)
            times.append(min(_from_clean(exchange) for _ in range(2)))  # what disturbs a measurement only ever adds
        slopes[wire.name] = statistics.linear_regression(list(map(math.log, sizes)), list(map(math.log, times))).slope
    return slopes


def _from_clean(exchange: Exchange) -> float:
    """The seconds of one parse, with nothing left over from the one before for the garbage collector to find in it."""
    gc.collect()
    return _seconds(exchange)[0]


# --- an upstream that speaks HTTP/2 -----------------------------------------------------------------------------------------------


class Upstream(asyncio.Protocol):
    """Answers each call at once: an object, or where a stream was asked for, events with a DATA frame each."""

    def __init__(self) -> None:
        from h2.config import H2Configuration
        from h2.connection import H2Connection

        self._connection = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._bodies: dict[int, bytearray] = {}
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connection.initiate_connection()
        transport.write(self._connection.data_to_send())

    def data_received(self, data: bytes) -> None:
        from h2.events import DataReceived, StreamEnded, StreamReset

        assert self._transport is not None
        for event in self._connection.receive_data(data):
            if isinstance(event, DataReceived):
                self._bodies.setdefault(event.stream_id, bytearray()).extend(event.data)
                self._connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, StreamEnded):
                self._answer(event.stream_id)
            elif isinstance(event, StreamReset):
                self._waiting = deque(item for item in self._waiting if item[0] != event.stream_id)
        self._flush()
        self._transport.write(self._connection.data_to_send())

    def _answer(self, stream: int) -> None:
        streamed = self._bodies.pop(stream, b"").endswith(b'"stream":true}')
        kind = "text/event-stream" if streamed else "application/json"
        self._connection.send_headers(stream, [(":status", "200"), ("content-type", kind)])
        pieces = [DELTA] * EVENTS + [DONE] if streamed else [ANSWER]
        self._waiting.extend((stream, piece) for piece in pieces)
        self._waiting.append((stream, b""))

    def _flush(self) -> None:
        """Send what the peer's windows have room for; what they have not goes when it has made some."""
        while self._waiting:
            stream, piece = self._waiting[0]
            if len(piece) > self._connection.local_flow_control_window(stream):
                return
            self._connection.send_data(stream, piece, end_stream=not piece)
            self._waiting.popleft()


def upstream(certificate: str) -> None:
    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.set_alpn_protocols(["h2"])
        server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, ssl=context)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(main())


# --- the agent --------------------------------------------------------------------------------------------------------------------


class Agent:
    """One HTTP/2 connection through the proxy."""

    def __init__(self, port: int, proxy_port: int, trusted: str) -> None:
        from h2.config import H2Configuration
        from h2.connection import H2Connection

        raw = socket.create_connection(("127.0.0.1", proxy_port))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        credentials = base64.b64encode(f"bench:{TOKEN}".encode()).decode()
        raw.sendall(f"CONNECT localhost:{port} HTTP/1.1\r\nproxy-authorization: Basic {credentials}\r\n\r\n".encode())
        assert b" 200 " in raw.recv(4096)
        context = ssl.create_default_context(cafile=trusted)
        context.set_alpn_protocols(["h2"])
        self._socket = context.wrap_socket(raw, server_hostname="localhost")
        assert self._socket.selected_alpn_protocol() == "h2", "the proxy does not offer HTTP/2"
        self._head = [
            (":method", "POST"),
            (":scheme", "https"),
            (":authority", f"localhost:{port}"),
            (":path", "/v1/chat/completions"),
            ("authorization", "Bearer sk-bench"),
            ("content-type", "application/json"),
        ]
        self._connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._connection.initiate_connection()
        self._begun = 0

    def call(self, count: int) -> None:
        """So many calls, a few at a time, every fourth of them streamed."""
        left = count - min(count, STREAMS)
        for _ in range(count - left):
            self._begin()
        open_ = count - left
        while open_:
            self._socket.sendall(self._connection.data_to_send())
            data = self._socket.recv(65536)
            assert data, "the connection was closed"
            for _ in range(self._ended(data)):
                open_ -= 1
                if left:
                    left, open_ = left - 1, open_ + 1
                    self._begin()
        self._socket.sendall(self._connection.data_to_send())

    def _begin(self) -> None:
        stream = self._connection.get_next_available_stream_id()
        self._connection.send_headers(stream, self._head)
        self._connection.send_data(stream, KINDS[self._begun % len(KINDS)], end_stream=True)
        self._begun += 1

    def _ended(self, data: bytes) -> int:
        from h2.events import ConnectionTerminated, DataReceived, ResponseReceived, StreamEnded, StreamReset

        ended = 0
        for event in self._connection.receive_data(data):
            assert not isinstance(event, (StreamReset, ConnectionTerminated)), event
            if isinstance(event, ResponseReceived):
                assert (":status", "200") in (event.headers or ()), event
            elif isinstance(event, DataReceived):
                self._connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            ended += isinstance(event, StreamEnded)
        return ended


def agent(port: int, proxy_port: int, trusted: str) -> None:
    """Reads counts, one a line, and answers each with an object once so many calls are done."""
    connection = Agent(port, proxy_port, trusted)
    print("{}", flush=True)
    for line in sys.stdin:
        connection.call(int(line))
        print("{}", flush=True)


# --- memory -----------------------------------------------------------------------------------------------------------------------


def memory(count: int) -> dict[str, float]:
    """Growth of the proxy's resident set, in MB, over `count` calls after the warm-up."""
    from stepwell.proxy import ensure_ca
    from stepwell.spool import marks, write_cursor

    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:

        def start(*arguments: object, script: str = __file__) -> Part:
            part = Part(*arguments, script=script)
            stack.callback(part.stop)
            return part

        folder = Path(scratch)
        trusted, certificate = certificates(folder)
        os.environ["SSL_CERT_FILE"] = str(trusted)  # how the proxy comes to trust the upstream
        own = ensure_ca(folder)
        port = start("upstream", certificate).first_line
        proxy = start("stepwell", folder, folder / "data", script=str(Path(__file__).with_name("proxy.py")))
        caller = start("agent", port, proxy.first_line, own)
        spool = folder / "data" / "spool"

        def call(number: int) -> None:
            for begun in range(0, number, SLICE):
                caller.ask(str(min(SLICE, number - begun)))
                write_cursor(spool, marks(spool))

        call(WARM_UP)
        before = proxy.rss()
        call(count)
        after = proxy.rss()
        proxy.cpu()  # lets what was begun end
        recorded, wanted = sum(marks(spool).values()), 2 * (count + WARM_UP)
        assert recorded == wanted, f"{recorded} records of {wanted}: calls were not captured"
        return {"rss_growth_mb": (after - before) / 2**20, "rss_mb": after / 2**20}


# --- the run ----------------------------------------------------------------------------------------------------------------------


def run(rounds: int, megabytes: float, count: int) -> dict[str, Any]:
    """All measurements; see `--json` for the names."""
    dialects = throughput(rounds)
    slopes = linearity(megabytes)
    for name, slope in slopes.items():
        dialects[name]["linear_exponent"] = slope
    return {"dialects": dialects, "linear_exponent": max(slopes.values()), **memory(count)}


def _print(figures: dict[str, Any]) -> None:
    names = list(next(iter(figures["dialects"].values())))
    print(f"{'':20}" + "".join(f"{name:>17}" for name in names))
    for dialect, values in figures["dialects"].items():
        print(f"{dialect:20}" + "".join(f"{values[name]:17.2f}" for name in names))
    print()
    for name in ("linear_exponent", "rss_growth_mb", "rss_mb"):
        print(f"{name:20}{figures[name]:17.2f}")


def main() -> None:
    match sys.argv[1:]:
        case ["upstream", certificate]:
            return upstream(certificate)
        case ["agent", port, proxy_port, trusted]:
            return agent(int(port), int(proxy_port), trusted)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=15, help="how often each call is parsed")
    parser.add_argument("--stream-mb", type=float, default=50, help="size of the longest stream")
    parser.add_argument("--exchanges", type=int, default=50_000, help="calls over which the growth of memory is taken")
    wanted = parser.parse_args()
    figures = run(wanted.rounds, wanted.stream_mb, wanted.exchanges)
    if wanted.json:
        print(json.dumps(figures))
    else:
        _print(figures)
    return None


if __name__ == "__main__":
    main()
