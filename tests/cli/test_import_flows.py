"""mitmproxy's flow dumps."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mitmproxy", reason="the proxy's packages are not installed")

from mitmproxy import flow as mitm_flow
from mitmproxy import http, websocket
from mitmproxy.io import FlowWriter
from mitmproxy.test import tflow
from wsproto.frame_protocol import Opcode

from stepwell.cli._import_files import Trouble, read_file
from stepwell.exchange import Exchange, Found, dialect_for

URL = "https://api.openai.com/v1/chat/completions"
SOCKET = "https://api.openai.com/v1/responses"


def call(**changes: Any) -> http.HTTPFlow:
    headers = http.Headers(content_type="application/json", x_api_key="k")
    request = http.Request.make("POST", URL, b'{"messages": []}', headers)
    response = http.Response.make(200, b'{"choices": []}', {"content-type": "application/json"})
    request.timestamp_start, response.timestamp_start, response.timestamp_end = 1.5, 2.5, 3.5
    made = tflow.tflow(req=request, resp=response)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def dump(*flows: mitm_flow.Flow) -> bytes:
    file = io.BytesIO()
    for flow in flows:
        FlowWriter(file).add(flow)  # type: ignore[no-untyped-call]
    return file.getvalue()


def read(folder: Path, content: bytes) -> tuple[list[Exchange], list[str]]:
    path = folder / "dump"
    path.write_bytes(content)
    values = list(read_file(path))
    return (
        [value.exchange for value in values if isinstance(value, Found)],
        [value.reason for value in values if isinstance(value, Trouble)],
    )


def test_calls_are_exchanges_and_other_flows_are_not(tmp_path: Path) -> None:
    (one, two), trouble = read(tmp_path, dump(call(), tflow.ttcpflow(), call()))
    assert trouble == []
    asked, answered = one.request, one.response
    assert (one.dialect, asked.method, asked.url, asked.at_ns) == ("openai.chat", "POST", URL, 1_500_000_000)
    assert ("content-type", "application/json") in asked.headers
    assert "x-api-key" not in dict(asked.headers)
    assert (asked.body, answered.body) == (b'{"messages": []}', b'{"choices": []}')
    assert (answered.status, answered.end) == (200, "complete")
    assert (answered.first_byte_ns, answered.at_ns) == (2_500_000_000, 3_500_000_000)
    assert two.id == one.id


def test_bodies_stay_as_they_crossed_the_wire(tmp_path: Path) -> None:
    made = call()
    assert made.response is not None
    made.response.encode("gzip")
    (one,), _ = read(tmp_path, dump(made))
    assert one.response.body.startswith(b"\x1f\x8b")
    assert ("content-encoding", "gzip") in one.response.headers


@pytest.mark.parametrize(
    ("message", "answered", "end"),
    [
        ("Client disconnected.", True, "client_disconnect"),
        ("Server disconnected.", True, "upstream_error"),
        ("Client disconnected.", False, "client_disconnect"),
        (None, False, "aborted"),
    ],
)
def test_how_it_ended(tmp_path: Path, message: str | None, answered: bool, end: str) -> None:
    made = call(error=mitm_flow.Error(message) if message else None)
    if not answered:
        made.response = None
    (one,), _ = read(tmp_path, dump(made))
    assert (one.response.status, one.response.end) == (200 if answered else None, end)
    assert one.response.error == (message or "the dump holds no answer")


@pytest.mark.skipif(dialect_for("WEBSOCKET", "/v1/responses") is None, reason="no dialect takes turns of a WebSocket")
@pytest.mark.parametrize(
    ("by_client", "closed_at", "end"),
    [(True, 9.0, "client_disconnect"), (False, 9.0, "upstream_error"), (None, None, "aborted")],
)
def test_a_websocket_is_one_exchange_per_turn(
    tmp_path: Path, by_client: bool | None, closed_at: float | None, end: str
) -> None:
    made = call(request=http.Request.make("GET", SOCKET), response=http.Response.make(101))
    create = b'{"type": "response.create"}'
    frames = [
        (Opcode.TEXT, True, create),
        (Opcode.BINARY, False, b"\0"),
        (Opcode.TEXT, False, b'{"type": "error"}'),
        (Opcode.TEXT, True, create),
    ]
    messages = [websocket.WebSocketMessage(*frame, timestamp=4.0 + place) for place, frame in enumerate(frames)]
    made.websocket = websocket.WebSocketData(messages, by_client, None, None, closed_at)
    (first, second), trouble = read(tmp_path, dump(made))
    assert (trouble, first.dialect) == ([], "openai.responses")
    assert (first.response.body, first.response.end) == (b'{"type": "error"}\n', "complete")
    assert (second.request.at_ns, second.response.end) == (7_000_000_000, end)


def test_a_dump_that_was_cut_gives_what_it_has(tmp_path: Path) -> None:
    one = dump(call())
    exchanges, (reason,) = read(tmp_path, one + one[:-40])
    assert len(exchanges) == 1
    assert reason.startswith("cannot be read beyond 1 exchanges: is a damaged flow dump")


def test_without_mitmproxy_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = dump(call())
    monkeypatch.setitem(sys.modules, "mitmproxy", None)
    exchanges, (reason,) = read(tmp_path, content)
    assert exchanges == []
    assert "is a mitmproxy flow dump" in reason
    assert "pip install 'stepwell[proxy]'" in reason
