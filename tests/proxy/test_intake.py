"""What is taken off a request before it is forwarded, and what stays."""

from __future__ import annotations

import pytest
from mitmproxy import connection, http
from mitmproxy.test import tflow

from stepwell.proxy._auth import Gate
from stepwell.proxy._flows import Call
from stepwell.proxy._hosts import host_test
from stepwell.proxy._intake import Intake
from stepwell.proxy._route import Router

from .conftest import TOKEN, RunningProxy, StartUpstream

ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"
INTAKE = Intake(host_test(["api.example.com"]), Gate(TOKEN, host="127.0.0.1", port=1, run_port=2), Router(()))


def _take_in(
    headers: list[tuple[str, str]], path: str = PATH, host: str = "api.example.com"
) -> tuple[Call, http.Request]:
    flow: http.HTTPFlow = tflow.tflow()
    flow.client_conn = connection.Client(peername=("127.0.0.1", 5), sockname=("127.0.0.1", 1))
    flow.request = http.Request.make("POST", f"https://{host}{path}")
    flow.request.headers = http.Headers([(name.encode(), value.encode()) for name, value in headers])
    return INTAKE.take_in(flow), flow.request


def test_headers_that_are_for_us_are_recorded_and_not_forwarded(
    proxy: RunningProxy, start_upstream: StartUpstream
) -> None:
    upstream = start_upstream()
    headers = [
        (b"X-Stepwell-Trajectory", b"t-1"),
        (b"x-stepwell-meta-a_1.b", "ü".encode()),
        (b"X-Stepwell-Token", b"SECRET"),
    ]
    for http2 in (False, True):
        proxy.client(http2=http2).post(f"{upstream.url}{PATH}", json=ASK, headers=[*headers, (b"x-mine", b"1")])
        proxy.client(http2=http2).get(f"{upstream.url}/v1/models", headers=headers)
    assert [name for _, _, seen, _ in upstream.seen for name in seen if "stepwell" in name] == []
    assert [seen.get("x-mine") for _, _, seen, _ in upstream.seen] == ["1", None] * 2
    for exchange in proxy.exchanges(upstream, 2):
        kept = [pair for pair in exchange.request.headers if "stepwell" in pair[0]]
        assert kept == [("x-stepwell-trajectory", "t-1"), ("x-stepwell-meta-a_1.b", "ü")]
    assert b"SECRET" not in proxy.spool_bytes()


def test_all_other_bytes_stay_the_agents_own() -> None:
    headers = [
        ("B", "1"),
        ("x-stepwell-split", "eval"),
        ("a", "2"),
        ("X-Stepwellness", "3"),
        ("B", "4"),
        ("x-stepwell", "5"),
    ]
    call, request = _take_in(headers)
    assert list(request.headers.fields) == [
        (name.encode(), value.encode()) for name, value in headers if name != "x-stepwell-split"
    ]
    assert call.own == [("x-stepwell-split", "eval")]


@pytest.mark.parametrize("signed", [True, False])
def test_what_the_client_signed_stays(signed: bool) -> None:
    names = "accept-encoding;host;x-stepwell-split" if signed else "host"
    headers = [
        ("authorization", f"AWS4-HMAC-SHA256 Credential=A/20260101/x, SignedHeaders={names}, Signature=00"),
        ("Accept-Encoding", "gzip"),
        ("X-Stepwell-Split", "eval"),
    ]
    call, request = _take_in(headers)
    assert len(request.headers.fields) == (3 if signed else 1)
    assert call.own == ([] if signed else [("X-Stepwell-Split", "eval")])


def test_other_hosts_and_calls_keep_what_they_have() -> None:
    headers = [("accept-encoding", "br"), ("x-stepwell-split", "eval")]
    call, request = _take_in(headers, host="other.example.com")
    assert (len(request.headers.fields), call.dialect, call.own) == (2, None, [])
    call, request = _take_in(headers, path="/v1/models")
    assert [name for name, _ in request.headers.fields] == [b"accept-encoding"]
