"""The proxy's process: start, serve, drain, stop."""

# mypy: allow-untyped-calls
# mitmproxy's own functions are annotated in part only.

from __future__ import annotations

import asyncio
import errno
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from stepwell.errors import SettingsError, SpoolError
from stepwell.proxy._addon import StepwellAddon
from stepwell.proxy._auth import Gate
from stepwell.proxy._base import BaseUrls
from stepwell.proxy._ca import ca_folder, ensure_ca
from stepwell.proxy._ca_bundle import upstream_bundle
from stepwell.proxy._capture import Capture
from stepwell.proxy._config import ProxyConfig
from stepwell.proxy._control import Control
from stepwell.proxy._flows import Flows
from stepwell.proxy._hosts import host_test
from stepwell.proxy._loops import Loops
from stepwell.proxy._master import eager_tasks, listen, make_master
from stepwell.proxy._policy import PolicyFile
from stepwell.proxy._route import Router
from stepwell.proxy._seen import Seen, quiet
from stepwell.proxy._upstream import upstream_proxy
from stepwell.proxy._upstreams import Upstreams
from stepwell.spool import Spool, SpoolWriter, read_cursor

try:
    import uvloop

    _new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
except ImportError:  # not on Windows
    _new_loop = asyncio.new_event_loop

_log = logging.getLogger(__name__)

_PREVIOUS_SECONDS = 15.0
"""How long the spool of a previous proxy that is still shutting down is waited for."""
_FLUSH_SECONDS = 30.0
_LINGER = 0.1
"""Seconds of calls that share one commit to the disk, which costs as much as the call itself."""

Ready = Callable[[dict[str, int]], None]


def run_proxy(config: ProxyConfig, *, data: Path, home: Path, token: str, ready: Ready) -> None:
    """Run the proxy until SIGTERM or SIGINT; a second signal ends the draining.

    `data` holds the spool (`data/spool/proxy.db`), `home` the certificate authority (`home/ca`), `token` is the password of the
    proxy URLs. `ready` is called once with the actual `port` and `run_port`, when both listen. Signals are heard in the main thread
    only.

    Raises:
        SettingsError: a port is taken, the token is empty, or the CA of a route cannot be read.
        SpoolError: the spool is in use by another process, or cannot be opened.
    """
    if not token:
        raise SettingsError("the proxy needs a token: without one anybody could write to any trajectory")
    logging.getLogger("mitmproxy").setLevel(logging.WARNING)
    logging.getLogger("mitmproxy.proxy.server").addFilter(quiet)
    ensure_ca(home, config, adapt=True)
    trusted = upstream_bundle(home, [route.ca for route in config.routes if route.ca], environ=os.environ)
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(_bind(config.host, number, setting))
            for number, setting in ((config.port, "port"), (config.run_port, "run_port"))
        ]
        folder = data / "spool"
        spool = Spool(folder / "proxy.db", max_bytes=config.max_spool_bytes, wait=_PREVIOUS_SECONDS, anew=True)
        writer = SpoolWriter(spool, cursor=partial(read_cursor, folder), linger=_LINGER)
        stack.callback(_close, writer)
        runner = stack.enter_context(asyncio.Runner(loop_factory=_new_loop))
        runner.run(_Proxy(config, token, sockets, writer, folder).run(ca_folder(home), trusted, ready))


class _Proxy:
    """The parts of a running proxy."""

    def __init__(
        self, config: ProxyConfig, token: str, sockets: Sequence[socket.socket], writer: SpoolWriter, folder: Path
    ) -> None:
        self._sockets = sockets
        self._drain_seconds = config.drain_seconds
        port, run_port = (bound.getsockname()[1] for bound in sockets)
        self._ports = {"port": port, "run_port": run_port}
        self._flows = Flows()
        capture, seen = Capture(writer, config.max_body_bytes, PolicyFile(folder.parent)), Seen()
        gate = Gate(token, host=config.host, port=port, run_port=run_port)
        own = upstream_proxy(config.upstream_proxy, os.environ, (port, run_port))
        upstreams = Upstreams(own, (port, run_port))
        self._addon = StepwellAddon(
            watched=host_test([*config.hosts, *(route.host for route in config.routes)]),
            gate=gate,
            loops=Loops((port, run_port)),
            router=Router(config.routes),
            base=BaseUrls(config.base_urls, gate, token, host=config.host, port=port),
            flows=self._flows,
            capture=capture,
            control=Control(writer, folder, self._flows, capture, seen, upstreams),
            seen=seen,
            upstreams=upstreams,
        )

    async def run(self, confdir: Path, trusted: Path, ready: Ready) -> None:
        """Serve until told to stop, then let the calls in flight finish."""
        stop, hurry = asyncio.Event(), asyncio.Event()
        loop = asyncio.get_running_loop()
        _hear_signals(loop, stop, hurry)
        master = make_master(confdir, trusted)
        master.addons.add(self._addon)
        loop.set_task_factory(eager_tasks)
        await master.running()
        try:
            servers = [await listen(master, bound) for bound in self._sockets]
            _log.info("listening on ports %(port)d (anonymous agents) and %(run_port)d (stepwell run)", self._ports)
            ready(dict(self._ports))
            await stop.wait()
            for server in servers:
                server.close()
            await self._drain(hurry)
        finally:
            self._addon.abort()
            await master.done()
            loop.set_task_factory(None)

    async def _drain(self, hurry: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(self._flows.idle(self._drain_seconds)), asyncio.ensure_future(hurry.wait())]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if len(self._flows):
            _log.warning("stopping with %d calls still in flight", len(self._flows))


def _bind(host: str, port: int, setting: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.listen(1024)  # now: with SO_REUSEADDR two may bind, but only one can listen
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        taken = error.errno == errno.EADDRINUSE
        reason = "is in use by another program" if taken else f"cannot be listened on ({error.strerror})"
        raise SettingsError(
            f"port {port} on {host} {reason}: stop it, or set proxy.{setting} to another port"
        ) from error
    return bound


def _hear_signals(loop: asyncio.AbstractEventLoop, stop: asyncio.Event, hurry: asyncio.Event) -> None:
    if threading.current_thread() is not threading.main_thread():
        return

    def told_to_stop() -> None:
        (hurry if stop.is_set() else stop).set()

    for number in (signal.SIGINT, signal.SIGTERM):
        try:
            loop.add_signal_handler(number, told_to_stop)
        except NotImplementedError:  # Windows: Ctrl-C ends the process, and the next start closes what was open
            return


def _close(writer: SpoolWriter) -> None:
    try:
        writer.flush(_FLUSH_SECONDS)
    except (SpoolError, TimeoutError) as error:
        _log.error("the last calls may be unrecorded: %s", str(error) or "the disk does not keep up")
    writer.close()
