"""Another proxy between ours and the world, for tests."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit


def basic(user: str, password: str) -> str:
    """What a proxy is sent with credentials."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


USER, PASSWORD = "office", "p%40ss SECRET"
EXPECTED = basic(USER, "p@ss SECRET")


class Tunnels:
    """A proxy that takes every name for this machine's, and remembers what it was asked for: tunnels, and plain requests."""

    def __init__(self, context: ssl.SSLContext | None, expected: str) -> None:
        self.asked: list[tuple[str, str]] = []
        self.connections = 0
        self.port = 0
        self._expected = expected
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._serve(),), daemon=True)
        self._thread.start()
        assert self._listening.wait(20)

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._client, "127.0.0.1", 0, ssl=self._context)
        self.port = server.sockets[0].getsockname()[1]
        self._stop = asyncio.Event()
        self._listening.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, OSError):
                await task

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._request(reader, writer):
                pass
        writer.close()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        line, fields = await _head(reader)
        given = fields.pop("proxy-authorization", "")
        self.asked.append((line, given))
        assert fields["host"]
        if given != self._expected:
            who = "proxy-authenticate: Basic realm=office\r\ncontent-length: 0\r\n"
            writer.write(f"HTTP/1.1 407 Who are you\r\n{who}\r\n".encode())
            return False
        method, target, _ = line.split()
        if method == "CONNECT":
            there, out = await asyncio.open_connection("127.0.0.1", int(target.rpartition(":")[2]))
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await asyncio.gather(_copy(reader, out), _copy(there, writer))
            return False
        url = urlsplit(target)
        there, out = await asyncio.open_connection("127.0.0.1", url.port or 80)
        await _message(f"{method} {url.path} HTTP/1.1", fields, reader, out)
        await _message(*await _head(there), there, writer)
        out.close()
        return True

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        self._loop.close()


async def _head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    line, *fields = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    return line, {name.lower(): value for name, _, value in (field.partition(": ") for field in fields)}


async def _message(
    line: str, fields: dict[str, str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    body = await reader.readexactly(int(fields.get("content-length", 0)))
    writer.write(f"{line}\r\n{head}\r\n".encode() + body)
    await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def tunnels(certificate: Path | None = None, expected: str = EXPECTED) -> Iterator[Tunnels]:
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(certificate))
    running = Tunnels(context, expected)
    try:
        yield running
    finally:
        running.close()
