"""Serves an ASGI application on a socket with hypercorn's connection handling, until told to stop.

Hypercorn's own `serve` is built for deployments: at its end it waits for clients to hang up and for TLS to say good-bye,
and it gives an application no way to break its connection. A test server needs both, so this drives hypercorn's
connection class (`TCPServer`, which holds all of HTTP/1.1 and HTTP/2) on connections it accepts itself.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable

from hypercorn.asyncio.tcp_server import TCPServer
from hypercorn.asyncio.worker_context import WorkerContext
from hypercorn.config import Config
from hypercorn.typing import LifespanState
from hypercorn.utils import wrap_app
from starlette.types import ASGIApp

_logger = logging.getLogger(__name__)
# How long idle connections get to close, and then replies under way to end, once the server stops.
_CLOSE_SECONDS = 0.05
_END_SECONDS = 1.0


def _config() -> Config:
    config = Config()
    config.accesslog = None
    config.errorlog = logging.getLogger("stepwell.testing.http")
    config.include_server_header = False
    # A connection stays open as long as its client likes: pools and benchmarks count on it.
    config.keep_alive_timeout = 600
    config.keep_alive_max_requests = 2**31
    config.h2_max_concurrent_streams = 1000
    return config


class _Connections:
    """The open connections: a task for each, and the means to cut them off."""

    def __init__(self, app: ASGIApp, tls: ssl.SSLContext | None) -> None:
        self._app = wrap_app(app, 0, "asgi")  # type: ignore[arg-type]  # starlette and hypercorn spell ASGI differently
        self._tls = tls
        self._config = _config()
        self._context = WorkerContext(None)
        self._transports: dict[asyncio.Task[None], asyncio.Transport | None] = {}

    def accept(self, listener: socket.socket) -> None:
        """Accept one connection: the loop calls this when the listener has one."""
        try:
            accepted, _ = listener.accept()
        except OSError:  # the client is gone again, or this process has no file descriptor left: later, maybe
            return
        accepted.setblocking(False)
        # Head and body go out in two writes: without this the second waits 40 ms for the client to acknowledge the first.
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        task = asyncio.get_running_loop().create_task(self._serve(accepted))
        self._transports[task] = None
        task.add_done_callback(self._forget)

    async def _serve(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=self._tls)
        task = asyncio.current_task()
        assert task is not None
        self._transports[task] = transport
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        state = LifespanState({"abort": transport.abort})
        await TCPServer(self._app, loop, self._config, self._context, state, reader, writer)

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._transports[task]
        error = None if task.cancelled() else task.exception()
        # Clients that leave during a handshake or a reply are this server's daily bread, not errors. And hypercorn's
        # task group makes a fuss of being cancelled, which only happens when there is nobody left to tell.
        if error is not None and not isinstance(error, OSError) and not self._context.terminated.is_set():
            _logger.error("a connection failed", exc_info=error)

    async def close(self) -> None:
        """Let idle connections close, then cut off what is left: a client that lingers must not hold up the test."""
        await self._context.terminated.set()
        await self._wait(_CLOSE_SECONDS)
        for task, transport in list(self._transports.items()):
            if transport is None:
                task.cancel()
            else:
                transport.abort()
        # What waits for something else than its connection, such as a script, is cancelled.
        await self._wait(_END_SECONDS)
        for task in self._transports:
            task.cancel()
        await self._wait(None)

    async def _wait(self, timeout: float | None) -> None:
        if self._transports:
            await asyncio.wait(list(self._transports), timeout=timeout)


async def serve_until(
    app: ASGIApp, listener: socket.socket, tls: ssl.SSLContext | None, ready: Callable[[], None], stop: asyncio.Event
) -> None:
    """Serve `app` on a listening socket; calls `ready()` once it accepts, returns some time after `stop` is set."""
    listener.setblocking(False)
    connections = _Connections(app, tls)
    loop = asyncio.get_running_loop()
    loop.add_reader(listener, connections.accept, listener)
    ready()
    try:
        await stop.wait()
    finally:
        loop.remove_reader(listener)
        await connections.close()
