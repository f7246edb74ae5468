"""Going through another proxy: a real one, that only passes tunnels on."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from pathlib import Path

import httpx2
import pytest
from mitmproxy import http
from mitmproxy.net.http import http1

from stepwell.proxy import ProxyConfig
from stepwell.proxy._upstream import UpstreamProxy, is_plain, upstream_proxy

from .conftest import REPLY, StartProxy, StartUpstream, make_ca
from .office import EXPECTED, PASSWORD, USER, basic, tunnels

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"


@pytest.fixture(scope="module")
def upstream_ca(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """As the others', for names that only the other proxy knows the way to."""
    return make_ca(tmp_path_factory.mktemp("office-ca"), "localhost", "api.far.example", "pages.far.example")


@pytest.mark.parametrize("tls", [False, True])
def test_decrypted_and_passed_connections_go_through_it(
    start_proxy: StartProxy, start_upstream: StartUpstream, upstream_ca: tuple[Path, Path], tls: bool
) -> None:
    upstream, plain = start_upstream(), start_upstream(tls=False)
    with tunnels(upstream_ca[1] if tls else None) as office:
        url = f"http{'s' if tls else ''}://{USER}:{PASSWORD.replace(' ', '%20')}@localhost:{office.port}"
        proxy = start_proxy("api.far.example", environ={"HTTPS_PROXY": url})
        for http2 in (False, True):
            client = proxy.client(http2=http2)
            assert client.post(f"https://api.far.example:{upstream.port}{PATH}", json=ASK).json() == REPLY
        own = ssl.create_default_context(cafile=str(proxy.trust))
        passed = proxy.client(verify=own).get(f"https://pages.far.example:{upstream.port}/")
        assert passed.json() == REPLY
        assert proxy.client().get(f"http://pages.far.example:{plain.port}/").json() == REPLY
        lines = [f"CONNECT {name}.far.example:{upstream.port} HTTP/1.1" for name in ("api", "api", "pages")]
        lines.append(f"GET http://pages.far.example:{plain.port}/ HTTP/1.1")
        assert office.asked == [(line, EXPECTED) for line in lines]
        assert len(proxy.exchanges(upstream, 2)) == 2
        written = proxy.spool_bytes()
        assert b"SECRET" not in written and EXPECTED.encode() not in written
        assert f"going through the proxy localhost:{office.port}".encode() in written
        proxy.stop()


def test_what_it_is_not_for_goes_directly(
    start_proxy: StartProxy, start_upstream: StartUpstream, upstream_ca: tuple[Path, Path]
) -> None:
    upstream = start_upstream()
    route = {"host": "api.far.example", "path": "/v1/chat", "upstream": upstream.url}
    with tunnels() as office:
        url = f"http://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{office.port}"
        proxy = start_proxy("localhost", upstream_proxy=url, routes=[route], environ={"NO_PROXY": "x, Near.example"})
        client = proxy.client(http2=True)
        # One connection of the client, two destinations: the routed one here, the other by way of the office.
        assert client.post(f"https://api.far.example:{upstream.port}{PATH}", json=ASK).json() == REPLY
        assert client.get(f"https://api.far.example:{upstream.port}/v1/models").json() == REPLY
        assert client.post(f"https://api.far.example:{upstream.port}{PATH}", json=ASK).json() == REPLY
        assert proxy.client().post(f"{upstream.url}{PATH}", json=ASK).json() == REPLY
        with pytest.raises(httpx2.HTTPError):  # there is no such host, and the office is not asked for it
            proxy.client().get(f"https://a.near.example:{upstream.port}/")
        assert [line for line, _ in office.asked] == [f"CONNECT api.far.example:{upstream.port} HTTP/1.1"]
        proxy.stop()


def test_a_tunnel_of_something_else_than_tls(start_proxy: StartProxy, upstream_ca: tuple[Path, Path]) -> None:
    with tunnels() as office, socket.create_server(("127.0.0.1", 0)) as server:

        def echo() -> None:
            peer, _ = server.accept()
            with peer:
                peer.sendall(peer.recv(100)[::-1])

        threading.Thread(target=echo, daemon=True).start()
        url = f"http://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{office.port}"
        proxy = start_proxy(upstream_proxy=url)
        with socket.create_connection(("127.0.0.1", proxy.ports["port"]), timeout=20) as raw:
            raw.sendall(f"CONNECT far.example:{server.getsockname()[1]} HTTP/1.1\r\n\r\n".encode())
            assert b" 200 " in raw.recv(1000)
            raw.sendall(b"GET odd\x00 protocol\r\n\r\n")
            assert raw.recv(100) == b"GET odd\x00 protocol\r\n\r\n"[::-1]
        assert len(office.asked) == 1
        proxy.stop()


def test_certificates_are_verified_behind_it_too(
    start_proxy: StartProxy, start_upstream: StartUpstream, upstream_ca: tuple[Path, Path]
) -> None:
    upstream = start_upstream()
    with tunnels() as office:
        url = f"http://{USER}:{PASSWORD.replace(' ', '%20')}@127.0.0.1:{office.port}"
        proxy = start_proxy("other.far.example", upstream_proxy=url)
        answer = proxy.client().post(f"https://other.far.example:{upstream.port}{PATH}", json=ASK)
        assert answer.status_code == 502 and "ertificate verify failed" in answer.text
        assert not upstream.seen
        proxy.stop()


def test_one_that_refuses(start_proxy: StartProxy, upstream_ca: tuple[Path, Path]) -> None:
    with tunnels() as office:
        proxy = start_proxy("api.far.example", upstream_proxy=f"http://u:SECRET@127.0.0.1:{office.port}")
        assert proxy.client().post(f"https://api.far.example:9{PATH}", json=ASK).status_code == 502
        (exchange,) = proxy.exchanges(9)
        assert exchange.response.end == "upstream_error"
        assert "407" in (exchange.response.error or "")
        assert b"SECRET" not in proxy.spool_bytes()
        proxy.stop()


@pytest.mark.parametrize(
    ("host", "no_proxy", "direct"),
    [
        ("api.example.com", "", False),
        ("api.example.com", "example.com", True),
        ("api.example.com", ".example.com", True),
        ("api.example.com", "*.example.com", True),
        ("API.Example.com.", "example.com", True),
        ("example.com", "example.com", True),
        ("badexample.com", "example.com", False),
        ("api.example.com", "a, b ,*", True),
        ("api.example.com", "example.com:443", True),
        ("api.example.com", "example.com:8443", False),
        ("10.1.2.3", "10.0.0.0/8", True),
        ("11.1.2.3", "10.0.0.0/8", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("fd00::1", "fd00::/8", True),
        ("fd00::1", "[fd00::1]", True),
        ("127.0.0.1", "", True),
        ("localhost", "", True),
        ("::1", "", True),
    ],
)
def test_what_no_proxy_means(host: str, no_proxy: str, direct: bool) -> None:
    assert UpstreamProxy("http://proxy.example:3128", no_proxy).excepts(host, 443) == direct


@pytest.mark.parametrize(
    ("host", "port", "line"),
    [
        ("a.example", 80, "http://a.example/p?q=1"),
        ("a.example", 8080, "http://a.example:8080/p?q=1"),
        ("fd00::1", 8080, "http://[fd00::1]:8080/p?q=1"),
    ],
)
def test_a_plain_request_is_one_to_the_proxy(host: str, port: int, line: str) -> None:
    request = http.Request.make("GET", "http://x/p?q=1")
    request.host, request.port = host, port
    assert is_plain(UpstreamProxy("http://u:p@proxy.example").way(request))
    head = http1.assemble_request_head(request)  # type: ignore[no-untyped-call]
    assert head.startswith(f"GET {line} HTTP/1.1\r\n".encode())
    assert request.headers["proxy-authorization"] == basic("u", "p")


@pytest.mark.parametrize(
    ("url", "headers", "version"),
    [
        ("https://a.example/", [], "HTTP/1.1"),
        ("http://a.example/", [(b"Upgrade", b"websocket")], "HTTP/1.1"),
        ("http://a.example/", [], "HTTP/2.0"),
    ],
)
def test_any_other_goes_in_a_tunnel_as_it_is(url: str, headers: list[tuple[bytes, bytes]], version: str) -> None:
    request = http.Request.make("GET", url, headers=headers)
    request.http_version = version
    before = request.copy()
    way = UpstreamProxy("https://u:p@proxy.example").way(request)
    assert (way[0], tuple(way[1]), is_plain(way)) == ("https", ("proxy.example", 443), False)
    assert request.headers == before.headers and request.authority == before.authority


def test_ways_are_equal_within_one_proxy_only() -> None:
    one, other = UpstreamProxy("http://u:p@a:1", "x"), UpstreamProxy("http://u:p@a:1", "x")
    copy = one.copy()
    assert copy.address == one.address and copy.credentials == one.credentials and copy.excepts("x", 1)
    assert len({one.tunnel, other.tunnel, copy.tunnel}) == 3
    plain = one.way(http.Request.make("GET", "http://a.example/"))
    assert one.tunnel == one.tunnel != other.tunnel and plain != one.tunnel


def test_which_one(caplog: pytest.LogCaptureFixture) -> None:
    def address(setting: str | None, **environ: str) -> tuple[str, int] | None:
        found = upstream_proxy(setting, environ, (8788, 8789))
        return found.address if found else None

    caplog.set_level(logging.INFO)
    assert address(None) is address("", HTTPS_PROXY="http://a:1") is None
    assert address("http://b", HTTPS_PROXY="http://a:1") == ("b", 80)
    assert address("https://b", HTTPS_PROXY="http://a:1") == ("b", 443)
    assert address(None, HTTPS_PROXY="http://a:1", ALL_PROXY="http://c:3") == ("a", 1)
    assert address(None, HTTPS_PROXY="a:1") == ("a", 1)
    assert address(None, all_proxy="http://c:3") == ("c", 3)
    assert address(None, HTTPS_PROXY="http://x:SECRET@127.0.0.1:8788") is None
    assert address(None, HTTPS_PROXY="http://localhost:8790") == ("localhost", 8790)
    for odd in ("socks5://x:SECRET@a:1", "http://x:SECRET@a:99999", "http://x:SECRET@"):
        assert address(None, HTTPS_PROXY=odd) is None
    assert "this one" in caplog.text and "no http(s):// proxy" in caplog.text
    assert "SECRET" not in caplog.text


def test_a_bad_setting_is_refused_without_its_words() -> None:
    for bad in ("socks5://x:SECRET@a:1", "http://x:SECRET@a:99999", "SECRET"):
        with pytest.raises(ValueError, match="upstream_proxy") as refused:
            ProxyConfig(upstream_proxy=bad)
        assert "SECRET" not in str(refused.value)
    assert "SECRET" not in repr(ProxyConfig(upstream_proxy="http://x:SECRET@a:1"))
