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

USER, PASSWORD = "office", "p%40ss SECRET"
EXPECTED = "Basic " + base64.b64encode(b"office:p@ss SECRET").decode()


class Tunnels:
    """A CONNECT proxy that takes every name for this machine's, and remembers what it was asked for."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.asked: list[tuple[str, str]] = []
        self.port = 0
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
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        line, _, rest = head.partition("\r\n")
        fields = dict(field.lower().split(": ", 1) for field in rest.split("\r\n") if field)
        given = next((f.split(": ", 1)[1] for f in rest.split("\r\n") if f.lower().startswith("proxy-auth")), "")
        self.asked.append((line, given))
        assert fields["host"]
        if given != EXPECTED:
            writer.write(b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n")
            writer.close()
            return
        there, out = await asyncio.open_connection("127.0.0.1", int(line.split()[1].rpartition(":")[2]))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_copy(reader, out), _copy(there, writer))

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        self._loop.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@contextmanager
def tunnels(certificate: Path | None = None) -> Iterator[Tunnels]:
    context = None
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(str(certificate))
    running = Tunnels(context)
    try:
        yield running
    finally:
        running.close()
