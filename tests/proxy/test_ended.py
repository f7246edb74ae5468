"""Streams that ended are forgotten: those that may still be asked for are not."""

# mypy: allow-untyped-calls
# mitmproxy's own functions are annotated in part only.

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from mitmproxy import connection, options
from mitmproxy.addonmanager import Loader
from mitmproxy.addons.proxyserver import Proxyserver
from mitmproxy.master import Master
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers.http import HttpLayer, HTTPMode
from mitmproxy.proxy.layers.http._http2 import Http2Client, Http2Server, StreamState

from stepwell.proxy._ended import forget_ended


def _options() -> options.Options:
    made = options.Options()
    master = cast(Master, SimpleNamespace(options=made))
    Proxyserver().load(Loader(master))
    return made


def http_layer() -> tuple[HttpLayer, Http2Server, Http2Client]:
    """A layer that has had the streams 1 to 7; 5 is running still."""
    client = connection.Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2))
    context = Context(client, _options())
    http = HttpLayer(context, HTTPMode.regular)
    agent, upstream = Http2Server(context), Http2Client(context)
    http.connections = {cast(Any, client): agent, cast(Any, context.server): upstream}
    agent.streams = dict.fromkeys((1, 3, 5, 7), StreamState.HEADERS_RECEIVED)
    upstream.our_stream_id = {1: 11, 3: 13, 5: 15, 7: 17}
    upstream.their_stream_id = {ours: theirs for theirs, ours in upstream.our_stream_id.items()}
    upstream.streams = {13: StreamState.HEADERS_RECEIVED, 15: StreamState.HEADERS_RECEIVED}
    http.streams[5] = cast(Any, object())
    return http, agent, upstream


def test_notes_go_once_nothing_can_ask_for_them() -> None:
    http, agent, upstream = http_layer()
    forget_ended(http, before=7)
    assert list(agent.streams) == [5, 7], "5 is running, 7 is young"
    assert upstream.our_stream_id == {5: 15, 7: 17} and upstream.their_stream_id == {15: 5, 17: 7}
    assert list(upstream.streams) == [15]


def test_a_stream_that_is_open_on_the_wire_stays() -> None:
    http, _agent, upstream = http_layer()
    upstream.h2_conn.initiate_connection()
    upstream.h2_conn.send_headers(13, [(":method", "POST"), (":scheme", "https"), (":authority", "a"), (":path", "/")])
    forget_ended(http, before=7)
    assert upstream.our_stream_id == {3: 13, 5: 15, 7: 17} and upstream.their_stream_id[13] == 3


def test_h2_remembers_a_bounded_number_of_closed_streams() -> None:
    *_, upstream = http_layer()
    for stream in range(5000):
        upstream.h2_conn._closed_streams[stream] = None
    assert len(upstream.h2_conn._closed_streams) == 1024
