"""What a doctor can ask the proxy: hosts that passed, clients that do not trust it."""

from __future__ import annotations

import logging
import ssl
from typing import Any

import httpx2
import pytest
from mitmproxy import connection
from mitmproxy.proxy.context import Context
from mitmproxy.tls import TlsData

from stepwell.proxy._seen import Seen, Tally, quiet

from .conftest import RunningProxy, StartProxy, StartUpstream, eventually

HOSTS = "http://stepwell.invalid/hosts"


def _hosts(proxy: RunningProxy) -> dict[str, Any]:
    document: dict[str, Any] = proxy.client(proxy.url()).get(HOSTS).json()
    return document


def test_hosts_that_passed_unread_are_counted(start_proxy: StartProxy, start_upstream: StartUpstream) -> None:
    proxy, upstream, plain = start_proxy("localhost"), start_upstream(), start_upstream(tls=False)
    own = ssl.create_default_context(cafile=str(proxy.trust))
    for _ in range(2):
        proxy.client(verify=own).get(f"https://127.0.0.1:{upstream.port}/").raise_for_status()
    proxy.client().get(f"{upstream.url}/").raise_for_status()
    assert proxy.client().get(f"http://127.0.0.1:{plain.port}/").status_code == 200
    seen = _hosts(proxy)
    assert seen["passed"] == {"hosts": {f"127.0.0.1:{upstream.port}": 2}, "others": 0}
    assert seen["distrusted"] == {"hosts": {}, "others": 0}
    assert seen["clients"][str(proxy.ports["port"])] == 4
    assert seen["clients"][str(proxy.ports["run_port"])] == 1


def test_a_client_that_does_not_trust_us_is_named_once(start_proxy: StartProxy, start_upstream: StartUpstream) -> None:
    proxy, upstream = start_proxy("localhost"), start_upstream()
    for _ in range(3):
        with pytest.raises(httpx2.ConnectError, match="certificate verify failed"):
            proxy.client(verify=ssl.create_default_context()).get(f"{upstream.url}/")
    name = f"localhost:{upstream.port}"
    assert eventually(lambda: _hosts(proxy)["distrusted"]["hosts"].get(name) == 3)
    said = [line for line in proxy.log.read_text().splitlines() if "trust" in line]
    assert len(said) == 1 and name in said[0] and "stepwell ca" in said[0]


def test_only_for_who_has_credentials(proxy: RunningProxy) -> None:
    assert proxy.client().get(HOSTS).status_code == 403
    assert proxy.client(proxy.url("x", "wrong")).get(HOSTS).status_code == 407


def test_names_are_bounded() -> None:
    tally = Tally(2)
    assert [tally.add(name) for name in ("a", "b", "b", "c", "b", "d")] == [1, 1, 2, 0, 3, 0]
    assert tally.document() == {"hosts": {"b": 3, "a": 1}, "others": 2}


def test_only_distrust_is_called_that(caplog: pytest.LogCaptureFixture) -> None:
    seen = Seen()

    def failed(error: str, sni: str | None = "API.example.com") -> None:
        client = connection.Client(peername=("127.0.0.1", 5), sockname=("127.0.0.1", 1))
        client.sni, client.error = sni, error
        context = Context(client, None)  # type: ignore[arg-type]
        context.server.address = ("10.0.0.1", 8443)
        seen.tls_failed_client(TlsData(client, context))

    with caplog.at_level(logging.WARNING):
        failed("unsupported protocol")
        failed("OpenSSL Error([('SSL routines', '', 'tlsv1 alert unknown ca')])")
        failed("connection closed", None)
    assert seen.distrusted.document()["hosts"] == {"api.example.com:8443": 1, "10.0.0.1:8443": 1}
    assert len(caplog.records) == 2


def test_what_is_not_said_twice() -> None:
    def record(text: str) -> logging.LogRecord:
        return logging.LogRecord("mitmproxy", logging.WARNING, "", 1, text, (), None)

    assert not quiet(record("Client TLS handshake failed. The client does not trust the proxy's certificate"))
    assert quiet(record("Server TLS handshake failed. Certificate verify failed"))
