"""What capture costs: an upstream, three ways to it (direct, bare embedded mitmproxy, Stepwell), one client per way.

    python benchmarks/proxy.py [--json] [--rounds 16] [--small 240] [--sse 16] [--memory 5000]

All in one run, the ways taking turns, so that a busy machine disturbs them alike. CPU is process time of the proxy, per call; that is
the figure to trust. "Bare" is mitmproxy with the same core and addons, an event loop of uvloop, and one hook that streams answers.
Everything runs on this machine, each part in a process of its own (this file with another first argument).
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped,unused-ignore]

CHUNKS = 60
PAUSE = 0.005
CONNECTIONS = 8
SETTLE = 0.15
TOKEN = "benchmark"

ASK = json.dumps(
    {
        "model": "bench",
        "temperature": 1.0,
        "messages": [
            {"role": "system", "content": "You are a careful engineer. " * 20},
            {"role": "user", "content": "Fix the failing test, then say what was wrong. " * 16},
        ],
    }
).encode()
ASK_STREAM = ASK[:-1] + b',"stream":true}'
ANSWER = json.dumps(
    {
        "id": "chatcmpl-0123456789",
        "object": "chat.completion",
        "created": 1760000000,
        "model": "bench",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "It works now. " * 24}, "finish_reason": "stop"}
        ],
        "usage": {"prompt_tokens": 320, "completion_tokens": 72, "total_tokens": 392},
    }
).encode()


# --- the upstream -----------------------------------------------------------------------------------------------------------------


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


_DELTA = _chunk(
    b'data: {"id":"chatcmpl-0123456789","object":"chat.completion.chunk","created":1760000000,"model":"bench",'
    b'"choices":[{"index":0,"delta":{"content":" token"},"finish_reason":null}]}\n\n'
)
_DONE = _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
_PLAIN = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(ANSWER), ANSWER)


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            body = await reader.readexactly(length)
            if not body.endswith(b'"stream":true}'):
                writer.write(_PLAIN)
                continue
            writer.write(_STREAM_HEAD + _DELTA)
            for _ in range(CHUNKS - 1):
                await asyncio.sleep(PAUSE)
                writer.write(_DELTA)
            writer.write(_DONE)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def upstream(certificate: str) -> None:
    import uvloop

    async def main() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server = await asyncio.start_server(_serve, "127.0.0.1", 0, ssl=context)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    uvloop.run(main())


# --- the proxies ------------------------------------------------------------------------------------------------------------------


def bare(home: str, trusted: str) -> None:
    import contextlib
    import logging

    import uvloop
    from mitmproxy import http, master, options
    from mitmproxy.addons import core, disable_h2c, next_layer, proxyserver, tlsconfig
    from mitmproxy.net.free_port import get_free_port
    from mitmproxy.utils import asyncio_utils

    setattr(asyncio_utils, "set_eager_task_factory", contextlib.nullcontext)  # noqa: B010 — fails with uvloop otherwise
    logging.getLogger("mitmproxy").setLevel(logging.WARNING)
    port = get_free_port()

    class Stream:
        def responseheaders(self, flow: http.HTTPFlow) -> None:
            assert flow.response is not None
            flow.response.stream = True

        def running(self) -> None:
            print(port, flush=True)

    async def main() -> None:
        opts = options.Options(
            listen_host="127.0.0.1", listen_port=port, confdir=home, ssl_verify_upstream_trusted_ca=trusted
        )
        made = master.Master(opts)
        made.addons.add(
            core.Core(),
            proxyserver.Proxyserver(),
            next_layer.NextLayer(),
            tlsconfig.TlsConfig(),
            disable_h2c.DisableH2C(),
        )
        made.addons.add(Stream())
        opts.update(connection_strategy="lazy")
        await made.run()

    uvloop.run(main())


def stepwell(home: str, data: str) -> None:
    from stepwell.proxy import ProxyConfig, run_proxy

    run_proxy(
        ProxyConfig(port=0, run_port=0, hosts=("localhost",)),
        data=Path(data),
        home=Path(home),
        token=TOKEN,
        ready=lambda ports: print(ports["run_port"], flush=True),
    )


# --- the client -------------------------------------------------------------------------------------------------------------------


class Connection:
    """One keep-alive connection, straight on a socket: the client must not be what is measured."""

    def __init__(self, port: int, proxy_port: int, trusted: str) -> None:
        raw = socket.create_connection(("127.0.0.1", proxy_port or port))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if proxy_port:
            import base64

            credentials = base64.b64encode(f"bench:{TOKEN}".encode()).decode()
            raw.sendall(
                f"CONNECT localhost:{port} HTTP/1.1\r\nproxy-authorization: Basic {credentials}\r\n\r\n".encode()
            )
            assert b" 200 " in raw.recv(4096)
        self._socket = ssl.create_default_context(cafile=trusted).wrap_socket(raw, server_hostname="localhost")
        self._head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost:{port}\r\nuser-agent: bench\r\n"
            "authorization: Bearer sk-bench\r\ncontent-type: application/json\r\naccept: */*\r\ncontent-length: {}\r\n\r\n"
        )

    def call(self, body: bytes) -> tuple[float, float]:
        """Seconds to the first byte of the answer's body, and to its end."""
        start = time.perf_counter()
        self._socket.sendall(self._head.format(len(body)).encode() + body)
        got, first = b"", 0.0
        while True:
            data = self._socket.recv(65536)
            assert data, "the connection was closed"
            got += data
            head, separator, rest = got.partition(b"\r\n\r\n")
            first = first or (time.perf_counter() - start if rest else 0.0)
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            if separator and (len(rest) == int(length) if length else got.endswith(b"0\r\n\r\n")):
                assert head.startswith(b"HTTP/1.1 200"), head
                return first, time.perf_counter() - start


def client(port: int, proxy_port: int, trusted: str) -> None:
    """Reads `kind count connections` lines, answers with JSON lines."""
    connections = [Connection(port, proxy_port, trusted) for _ in range(CONNECTIONS)]
    for connection in connections:
        connection.call(ASK)
    print("{}", flush=True)
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        for line in sys.stdin:
            kind, count, parallel = line.split()
            body = ASK if kind == "small" else ASK_STREAM
            share = int(count) // int(parallel)

            def work(connection: Connection, body: bytes = body, share: int = share) -> list[tuple[float, float]]:
                return [connection.call(body) for _ in range(share)]

            start = time.perf_counter()
            times = [pair for part in pool.map(work, connections[: int(parallel)]) for pair in part]
            seconds = time.perf_counter() - start
            firsts = sorted(first for first, _ in times)
            print(json.dumps({"calls": len(times), "seconds": seconds, "first": statistics.median(firsts)}), flush=True)


# --- the run ----------------------------------------------------------------------------------------------------------------------


class Part:
    """A process of a benchmark."""

    def __init__(self, *arguments: object, script: str = __file__) -> None:
        self.process = subprocess.Popen(
            [sys.executable, script, *map(str, arguments)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.first_line = self.process.stdout.readline().strip()
        assert self.first_line, f"{arguments[0]} did not start"

    def ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def cpu(self) -> float:
        """Seconds of processor time so far, all threads; what was begun for calls that have ended is let finish first."""
        time.sleep(SETTLE)
        if (
            sys.platform == "linux"
        ):  # the process's own clock, to the nanosecond; the usual figure comes in ticks of 10 ms
            return time.clock_gettime((~self.process.pid << 3) | 2)
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def rss(self) -> int:
        return int(psutil.Process(self.process.pid).memory_info().rss)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class Way:
    """One way to the upstream: a proxy or none, and the client that goes through it."""

    def __init__(self, name: str, proxy: Part | None, agent: Part) -> None:
        self.name = name
        self.proxy = proxy
        self.agent = agent
        self.results: dict[str, list[dict[str, float]]] = {"small": [], "sse": [], "first": []}

    def measure(self, kind: str, count: int, parallel: int, into: str) -> None:
        before = self.proxy.cpu() if self.proxy else 0.0
        answer = self.agent.ask(f"{kind} {count} {parallel}")
        after = self.proxy.cpu() if self.proxy else 0.0
        calls = answer["calls"]
        self.results[into].append(
            {
                "per_second": calls / answer["seconds"],
                "cpu_ms": (after - before) / calls * 1e3,
                "first_ms": answer["first"] * 1e3,
            }
        )

    def median(self, kind: str, figure: str) -> float:
        return statistics.median(result[figure] for result in self.results[kind])


def certificates(folder: Path) -> tuple[Path, Path]:
    from stepwell.testing import ThrowawayCA

    authority = ThrowawayCA()
    certificate, key = authority.issue(["localhost"])
    (folder / "upstream-ca.pem").write_bytes(authority.pem)
    (folder / "upstream.pem").write_bytes(certificate + key)
    return folder / "upstream-ca.pem", folder / "upstream.pem"


def _start(folder: Path, stack: ExitStack) -> dict[str, Way]:
    from stepwell.proxy import ensure_ca

    def start(*arguments: object) -> Part:
        part = Part(*arguments)
        stack.callback(part.stop)
        return part

    trusted, certificate = certificates(folder)
    os.environ["SSL_CERT_FILE"] = str(trusted)  # how the Stepwell proxy comes to trust the upstream
    own = ensure_ca(folder)
    port = start("upstream", certificate).first_line
    proxies = {
        "direct": None,
        "bare": start("bare", own.parent, trusted),
        "stepwell": start("stepwell", folder, folder / "data"),
    }
    return {
        name: Way(name, proxy, start("client", port, proxy.first_line if proxy else 0, own if proxy else trusted))
        for name, proxy in proxies.items()
    }


def run(rounds: int, small: int, sse: int, memory: int) -> dict[str, Any]:
    """All measurements; see `--json` for the names."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        ways = _start(Path(scratch), stack)
        for way in ways.values():  # warm-up
            way.agent.ask(f"small {small // 2} {CONNECTIONS}")
            way.agent.ask(f"sse {CONNECTIONS} {CONNECTIONS}")
        for _ in range(rounds):
            for way in ways.values():
                way.measure("small", small, CONNECTIONS, "small")
            for way in ways.values():
                way.measure("sse", sse, CONNECTIONS, "sse")
            for way in ways.values():
                way.measure("small", max(small // 4, 1), 1, "first")
        proxy = ways["stepwell"].proxy
        assert proxy is not None
        before = proxy.rss()
        if memory:
            ways["stepwell"].agent.ask(f"small {memory} {CONNECTIONS}")
        return _figures(ways) | {"rss_growth_mb": (proxy.rss() - before) / 2**20, "rss_mb": proxy.rss() / 2**20}


def _figures(ways: dict[str, Way]) -> dict[str, Any]:
    taken, plain, direct = ways["stepwell"], ways["bare"], ways["direct"]

    def ratio(kind: str) -> float:
        # Of the sums over many short rounds that take turns: the machine's own pace changes within seconds.
        ours, theirs = (sum(result["cpu_ms"] for result in way.results[kind]) for way in (taken, plain))
        return ours / theirs

    return {
        "cpu_ratio_small": ratio("small"),
        "cpu_ratio_sse": ratio("sse"),
        "first_byte_added_ms_p50": taken.median("first", "first_ms") - direct.median("first", "first_ms"),
        "ways": {
            way.name: {
                "requests_per_second": way.median("small", "per_second"),
                "cpu_ms_per_small_request": way.median("small", "cpu_ms"),
                "sse_chunks_per_second": way.median("sse", "per_second") * CHUNKS,
                "cpu_ms_per_sse_call": way.median("sse", "cpu_ms"),
                "first_byte_ms_p50": way.median("first", "first_ms"),
            }
            for way in ways.values()
        },
    }


def _print(figures: dict[str, Any]) -> None:
    names = list(next(iter(figures["ways"].values())))
    print(f"{'':28}" + "".join(f"{way:>12}" for way in figures["ways"]))
    for name in names:
        print(f"{name:28}" + "".join(f"{values[name]:12.2f}" for values in figures["ways"].values()))
    print()
    for name in ("cpu_ratio_small", "cpu_ratio_sse", "first_byte_added_ms_p50", "rss_growth_mb", "rss_mb"):
        print(f"{name:28}{figures[name]:12.2f}")


def main() -> None:
    match sys.argv[1:]:
        case ["upstream", certificate]:
            return upstream(certificate)
        case ["bare", home, trusted]:
            return bare(home, trusted)
        case ["stepwell", home, data]:
            return stepwell(home, data)
        case ["client", port, proxy_port, trusted]:
            return client(int(port), int(proxy_port), trusted)
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=16, help="how often the ways take turns")
    parser.add_argument("--small", type=int, default=240, help="small requests per round and way")
    parser.add_argument("--sse", type=int, default=16, help=f"streamed calls of {CHUNKS} chunks per round and way")
    parser.add_argument("--memory", type=int, default=5000, help="calls over which the growth of memory is taken")
    wanted = parser.parse_args()
    figures = run(wanted.rounds, wanted.small, wanted.sse, wanted.memory)
    if wanted.json:
        print(json.dumps(figures))
    else:
        _print(figures)
    return None


if __name__ == "__main__":
    main()
