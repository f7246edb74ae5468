"""mitmproxy embedded: its core and the addons that are needed, and a shorter way from its hooks to ours."""

# mypy: allow-untyped-calls
# mitmproxy's own functions are annotated in part only.

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine
from functools import partial
from inspect import isawaitable
from pathlib import Path
from socket import socket
from typing import Any

from mitmproxy import certs, hooks, master, options
from mitmproxy.addonmanager import AddonManager
from mitmproxy.addons import core, disable_h2c, next_layer, proxyserver, tlsconfig
from mitmproxy.exceptions import AddonHalt
from mitmproxy.proxy import commands, context, layers
from mitmproxy.proxy.mode_servers import ProxyConnectionHandler
from mitmproxy.proxy.mode_specs import ProxyMode

_log = logging.getLogger(__name__)

_SILENCE = 24 * 3600
"""Seconds without a byte after which a connection is closed. A model may think for a long time before its first one."""
_MAX_UPSTREAM = 10_000
"""Upstream connections per client connection and address. mitmproxy's five make the sixth parallel call of a client wait."""


class Dispatcher(AddonManager):
    """mitmproxy walks all addons with all their sub-addons for every hook; here the functions of a hook are looked up once."""

    def __init__(self, owner: master.Master) -> None:
        super().__init__(owner)
        self._functions: dict[str, list[Callable[..., Any]]] = {}

    def add(self, *addons: Any) -> None:
        super().add(*addons)
        self._functions.clear()

    async def handle_lifecycle(self, event: hooks.Hook) -> None:
        await self.trigger_event(event)

    async def trigger_event(self, event: hooks.Hook) -> None:
        functions = self._functions.get(event.name)
        if functions is None:
            functions = self._functions[event.name] = [
                f for addon in self.chain for _, f in self._iter_hooks(addon, event)
            ]
        if not functions:
            return
        arguments = event.args()
        for function in functions:
            try:
                result = function(*arguments)
                if result is not None and isawaitable(result):
                    await result
            except AddonHalt:
                return
            except Exception as error:  # noqa: BLE001 — traffic goes on whatever a hook does
                _log.error(
                    "the hook %s failed: %s",
                    event.name,
                    type(error).__name__,
                    exc_info=_log.isEnabledFor(logging.DEBUG),
                )


class OwnNames(tlsconfig.TlsConfig):
    """Certificates for the host that the client's handshake names, and no other.

    mitmproxy adds the address of the tunnel. The authority may not vouch for that one (see `_ca_names`), and clients would
    refuse the certificate for it.
    """

    def get_cert(self, conn_context: context.Context) -> certs.CertStoreEntry:
        if not (name := conn_context.client.sni):
            return super().get_cert(conn_context)
        own = tlsconfig._ip_or_dns_name(name)
        return self.certstore.get_cert(str(own.value), [own])


class EmbeddedMaster(master.Master):
    """A `Master` that does not start servers by itself."""

    def __init__(self, opts: options.Options) -> None:
        super().__init__(opts)
        self.addons = Dispatcher(self)
        self.server = proxyserver.Proxyserver()
        self.addons.add(core.Core(), self.server, next_layer.NextLayer(), OwnNames(), disable_h2c.DisableH2C())


class Handler(ProxyConnectionHandler):
    """One client connection."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.max_conns = defaultdict(lambda: asyncio.Semaphore(_MAX_UPSTREAM))

    async def handle_hook(self, hook: commands.StartHook) -> None:
        with self.timeout_watchdog.disarm():
            await self.master.addons.trigger_event(hook)


def make_master(confdir: Path, trusted: Path) -> EmbeddedMaster:
    """A master that signs with the authority in `confdir` and trusts upstream what the PEM file `trusted` holds.

    To be called in the running event loop. mitmproxy keeps global state: one master per process.
    """
    dhparam = confdir / "mitmproxy-dhparam.pem"
    if not dhparam.exists():  # mitmproxy writes it too, but another process might read half of it
        scratch = confdir / f".dhparam-{id(dhparam)}"
        scratch.write_bytes(certs.DEFAULT_DHPARAM)
        scratch.replace(dhparam)
    opts = options.Options(
        mode=[],
        server=False,
        confdir=str(confdir),
        ssl_verify_upstream_trusted_ca=str(trusted),
        tcp_timeout=_SILENCE,
    )
    made = EmbeddedMaster(opts)
    opts.update(connection_strategy="lazy")
    return made


async def listen(made: EmbeddedMaster, bound: socket) -> asyncio.Server:
    """Take clients on a bound socket."""
    host, port = bound.getsockname()[:2]
    mode = ProxyMode.parse(f"regular@{host}:{port}")
    return await asyncio.start_server(partial(_serve, made, mode), sock=bound, backlog=1024)


async def _serve(
    made: EmbeddedMaster, mode: ProxyMode, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    handler = Handler(made, reader, writer, made.options, mode)
    handler.layer = layers.modes.HttpProxy(handler.layer.context)
    with made.server.register_connection(handler.client.id, handler):
        try:
            await handler.handle_client()
        except asyncio.CancelledError:  # the loop is closing; asyncio would log a traceback for each client still there
            writer.close()


def eager_tasks(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **keywords: Any) -> asyncio.Task[Any]:
    """A task factory that runs a task's first part at once: most hooks are done then, and never see the event loop.

    Python's own does not take what uvloop hands over.
    """
    keywords.pop("eager_start", None)
    return asyncio.Task(coro, loop=loop, eager_start=True, **keywords)
