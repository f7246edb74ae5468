"""The gateway as a process."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from stepwell.errors import SettingsError
from stepwell.gateway._app import create_app
from stepwell.gateway._bulk_store import FILE as BULK
from stepwell.gateway._bulk_store import Judgements
from stepwell.gateway._config import GatewayConfig
from stepwell.gateway._declarations import FILE
from stepwell.gateway._memory import Memory
from stepwell.gateway._stream import Streams
from stepwell.gateway._tokens import Tokens
from stepwell.gateway._views import FILE as VIEWS
from stepwell.gateway._warehouse import Place
from stepwell.spool import Spool, SpoolWriter, read_cursor

__all__ = ["run_gateway"]

_log = logging.getLogger(__name__)

SPOOL_WAIT = 15.0
"""Seconds to wait for a gateway before this one to let go of the spool."""
MEMORY = "gateway.seen"
"""Beside the gateway's spool; only one gateway has that open."""
DRAIN = 10
"""Seconds requests under way are given at the end."""


def run_gateway(
    config: GatewayConfig,
    *,
    data: Path,
    home: Path,
    token: str,
    warehouse: str,
    storage_options: Mapping[str, str] | None,
    ready: Callable[[dict[str, Any]], None],
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then finish what is under way and return.

    `ready` is called once with `{"port": …}` when requests are answered. The warehouse need not exist: it is opened by the first
    request that reads. `settings`: those of the whole installation, to be shown.

    Raises:
        SettingsError: the address is taken or cannot be listened on, the token is empty, or others could reach the gateway and
            there are no tokens for them in `home`.
        SpoolError: another process owns the gateway's spool, or it cannot be used.
    """
    tokens = Tokens(home)
    _check_tokens(config, tokens)
    listener = _listen(config)
    folder = data / "spool"
    try:
        spool = Spool(folder / "gateway.db", max_bytes=config.max_spool_bytes, wait=SPOOL_WAIT, anew=True)
    except BaseException:
        listener.close()
        raise
    writer = SpoolWriter(spool, cursor=lambda producer: read_cursor(folder, producer))
    memory, judgements, over = Memory(folder / MEMORY), Judgements(data / BULK), threading.Event()
    try:
        app = create_app(
            writer=writer,
            spool_folder=folder,
            token=token,
            warehouse=Place(warehouse, storage_options),
            config=config,
            memory=memory,
            judgements=judgements,
            policy=data / FILE,
            tokens=tokens,
            views=data / VIEWS,
            settings=settings,
        )
        # Of a million steps it takes seconds, for which nobody should have to wait at the first look. Python waits for it at its end:
        # a thread that it leaves behind in the database ends the process by SIGABRT.
        threading.Thread(target=app.state.listing.keep, args=(over,), name="listing").start()
        _serve(app, listener, ready)
    finally:
        over.set()
        listener.close()
        writer.close()
        memory.close()
        judgements.close()


def _check_tokens(config: GatewayConfig, tokens: Tokens) -> None:
    if not config.is_local and not tokens.live():
        raise SettingsError(
            f"the gateway is to listen on {config.host}, where others can reach it, and there are no tokens for them: "
            "make one (stepwell token create --scope ingest), or set gateway.host to 127.0.0.1"
        )


def _listen(config: GatewayConfig) -> socket.socket:
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((config.host, config.port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen on {config.host} port {config.port} ({error.strerror}): "
            "stop what uses it, or set gateway.port to another one (0: any free one)"
        ) from error
    return listener


def _serve(app: FastAPI, listener: socket.socket, ready: Callable[[dict[str, Any]], None]) -> None:
    port = listener.getsockname()[1]
    settings = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=DRAIN,
    )
    _log.info("the gateway listens on port %d", port)
    _Server(settings, lambda: ready({"port": port}), app.state.streams).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Uvicorn, saying when it is up, and returning at a signal so that the spool can be closed.

    Uvicorn raises the signal again when it has shut down, which would end the process before anything else is put away.
    """

    def __init__(self, config: uvicorn.Config, started: Callable[[], None], streams: Streams) -> None:
        super().__init__(config)
        self._say_started, self._streams = started, streams

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._say_started()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._streams.ending = True  # else they would go on until they are cut off
        super().handle_exit(sig, frame)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        signals = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in signals}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
