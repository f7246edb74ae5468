"""Who is let in by which port, and whose calls they are."""

from __future__ import annotations

import base64
import shutil
import socket
import subprocess
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import quote

import pytest

from .conftest import REPLY, RunningProxy, StartUpstream

ASK = {"model": "m", "messages": []}
PATH = "/v1/chat/completions"


def _connect(port: int, *headers: str) -> tuple[int, dict[str, str], str]:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as raw:
        raw.sendall("\r\n".join(["CONNECT localhost:443 HTTP/1.1", *headers, "", ""]).encode())
        answer = HTTPResponse(raw)
        answer.begin()
        return answer.status, dict(answer.getheaders()), answer.read().decode()


@pytest.mark.parametrize(
    "credentials",
    [None, "Basic !!!", "Basic " + base64.b64encode(b"t:wrong").decode(), "Bearer token", "Basic", "Basic /w=="],
)
def test_the_port_for_stepwell_run_says_what_it_wants(proxy: RunningProxy, credentials: str | None) -> None:
    given = [f"Proxy-Authorization: {credentials}"] if credentials else []
    status, headers, text = _connect(proxy.ports["run_port"], *given)
    assert (status, headers["proxy-authenticate"]) == (407, 'Basic realm="stepwell"')
    assert "stepwell run --" in text
    assert proxy.anonymous in text


def test_plain_requests_are_refused_too(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    upstream = start_upstream(tls=False)
    assert proxy.client(proxy.url("t", "wrong")).get(upstream.url).status_code == 407
    assert not upstream.seen


def test_identity_is_per_connection(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    upstream = start_upstream()
    for user in ("one", "two", "one"):
        proxy.client(proxy.url(user)).post(f"{upstream.url}{PATH}", json=ASK)
    proxy.client().post(f"{upstream.url}{PATH}", json=ASK)
    named = sorted(str(exchange.trajectory_id) for exchange in proxy.exchanges(upstream, 4))
    assert named == ["None", "one", "one", "two"]


def test_long_and_odd_names_arrive_as_they_are(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    upstream = start_upstream()
    name = "Zür:ich/" + "x" * 200
    proxy.client(proxy.url(quote(name, safe=""))).post(f"{upstream.url}{PATH}", json=ASK)
    (exchange,) = proxy.exchanges(upstream)
    assert exchange.trajectory_id == name


def test_a_name_that_cannot_be_one_is_refused(proxy: RunningProxy) -> None:
    credentials = base64.b64encode(b"a\x07b:the-token-of-this-installation").decode()
    status, _, text = _connect(proxy.ports["run_port"], f"Proxy-Authorization: Basic {credentials}")
    assert (status, "names a trajectory" in text) == (407, True)


def test_the_anonymous_port_takes_anybody_and_believes_only_the_token(
    proxy: RunningProxy, start_upstream: StartUpstream
) -> None:
    upstream = start_upstream()
    address = f"127.0.0.1:{proxy.ports['port']}"
    for credentials in ("liar:wrong@", "honest:the-token-of-this-installation@", ""):
        client = proxy.client(f"http://{credentials}{address}")
        assert client.post(f"{upstream.url}{PATH}", json=ASK).json() == REPLY
    named = {exchange.trajectory_id for exchange in proxy.exchanges(upstream, 3)}
    assert named == {None, "honest"}


def test_credentials_of_a_plain_request_are_taken_off(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    upstream = start_upstream(tls=False)
    proxy.client(proxy.url("plain")).post(f"{upstream.url}{PATH}", json=ASK)
    assert "proxy-authorization" not in upstream.seen[0][2]
    (exchange,) = proxy.exchanges(upstream)
    assert exchange.trajectory_id == "plain"


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_curl_whose_first_connect_carries_no_credentials(
    proxy: RunningProxy, start_upstream: StartUpstream, tmp_path: Path
) -> None:
    upstream = start_upstream()
    command = [
        "curl",
        "-sS",
        "--proxy-anyauth",
        "-x",
        proxy.url("curl"),
        "-d",
        '{"messages":[]}',
        f"{upstream.url}{PATH}",
    ]
    bundle = proxy.home / "ca" / "mitmproxy-ca-cert.pem"
    done = subprocess.run(command, env={"CURL_CA_BUNDLE": str(bundle)}, capture_output=True, timeout=60)
    assert b"chatcmpl-1" in done.stdout, done.stderr
    (exchange,) = proxy.exchanges(upstream)
    assert exchange.trajectory_id == "curl"


def test_credentials_for_somebody_else_inside_a_tunnel_break_nothing(
    proxy: RunningProxy, start_upstream: StartUpstream
) -> None:
    upstream = start_upstream()
    client = proxy.client(proxy.url("inner"))
    answer = client.post(f"{upstream.url}{PATH}", json=ASK, headers={"proxy-authorization": "Basic b3RoZXI6cHc="})
    assert answer.json() == REPLY
    (exchange,) = proxy.exchanges(upstream)
    assert exchange.trajectory_id == "inner"
