"""Start, drain, stop, and dying."""

from __future__ import annotations

import signal
import socket
import threading
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from stepwell.errors import SettingsError, SpoolError
from stepwell.proxy import ProxyConfig, run_proxy
from stepwell.spool import LOST, Spool

from .conftest import TOKEN, StartProxy, StartUpstream, event, eventually, start_stream

ASK = {"model": "m", "messages": [], "stream": True}
PATH = "/v1/chat/completions"


class Gated:
    """Streams one event, then waits to be let on."""

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()

    def __call__(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        send = start_stream(handler)
        send(event("one"))
        self.asked.set()
        self.go_on.wait(30)
        send(event("two"))
        send(b"")


def _never(ports: dict[str, int]) -> None:
    raise AssertionError(f"must not start: {ports}")


@pytest.mark.parametrize("setting", ["port", "run_port"])
def test_a_port_that_is_taken(tmp_path: Path, setting: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        config = ProxyConfig(**{"port": 0, "run_port": 0, setting: port})
        with pytest.raises(SettingsError, match=rf"port {port} .* in use .* proxy\.{setting} "):
            run_proxy(config, data=tmp_path, home=tmp_path, token=TOKEN, ready=_never)


def test_without_a_token(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="token"):
        run_proxy(ProxyConfig(port=0, run_port=0), data=tmp_path, home=tmp_path, token="", ready=_never)


def test_a_spool_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stepwell.proxy import _process

    monkeypatch.setattr(_process, "_PREVIOUS_SECONDS", 0.1)
    with Spool(tmp_path / "spool" / "proxy.db"), pytest.raises(SpoolError, match="in use"):
        run_proxy(ProxyConfig(port=0, run_port=0), data=tmp_path, home=tmp_path, token=TOKEN, ready=_never)


def test_stopping_lets_a_stream_finish_and_takes_no_new_clients(
    start_proxy: StartProxy, start_upstream: StartUpstream
) -> None:
    gated = Gated()
    upstream = start_upstream(gated)
    proxy = start_proxy("localhost", drain_seconds=30)
    with proxy.client().stream("POST", f"{upstream.url}{PATH}", json=ASK) as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == event("one")
        proxy.process.send_signal(signal.SIGTERM)
        eventually(lambda: _refused(proxy.ports["port"]) and _refused(proxy.ports["run_port"]))
        assert proxy.process.poll() is None
        gated.go_on.set()
        assert b"".join(pieces) == event("two")
    assert proxy.process.wait(30) == 0
    (exchange,) = proxy.exchanges(upstream)
    assert (exchange.response.end, exchange.response.body) == ("complete", event("one") + event("two"))


def _refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset: the socket was closed while we waited in its queue
        return True
    return False


@pytest.mark.parametrize("drain_seconds", [0.2, 300])
def test_what_does_not_finish_in_time_is_recorded_as_aborted(
    start_proxy: StartProxy, start_upstream: StartUpstream, drain_seconds: float
) -> None:
    gated = Gated()
    upstream = start_upstream(gated)
    proxy = start_proxy("localhost", drain_seconds=drain_seconds)
    with proxy.client().stream("POST", f"{upstream.url}{PATH}", json=ASK) as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == event("one")
        proxy.process.send_signal(signal.SIGTERM)
        if drain_seconds > 1:  # a second signal ends the draining
            eventually(lambda: _refused(proxy.ports["port"]))
            proxy.process.send_signal(signal.SIGTERM)
        assert proxy.process.wait(30) == 0
    gated.go_on.set()
    (exchange,) = proxy.exchanges(upstream)
    assert (exchange.response.end, exchange.response.status) == ("aborted", 200)
    assert exchange.response.body == event("one")


def test_a_killed_proxy_leaves_a_call_that_the_next_one_closes(
    start_proxy: StartProxy, start_upstream: StartUpstream
) -> None:
    gated = Gated()
    upstream = start_upstream(gated)
    proxy = start_proxy("localhost")
    with proxy.client().stream("POST", f"{upstream.url}{PATH}", json=ASK) as answer:
        pieces = answer.iter_raw()
        assert next(pieces) == event("one")
        eventually(proxy.records)
        proxy.kill()
    gated.go_on.set()
    again = start_proxy("localhost")
    request, lost = again.records()
    assert (lost.kind, lost.ref) == (LOST, request.id)
    (exchange,) = again.exchanges(upstream)
    assert exchange.response.end == "aborted"
    certificate = again.home / "ca" / "mitmproxy-ca-cert.pem"
    assert again.context.get_ca_certs() and certificate.exists()
