"""Which side ended a call, over HTTP/2 too."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from http.server import BaseHTTPRequestHandler

import h2.config
import h2.connection
import h2.events

from .conftest import RunningProxy, StartUpstream, event, start_stream

PATH = "/v1/chat/completions"


async def _tunnel(proxy: RunningProxy, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.ports["port"])
    writer.write(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    context = proxy.context
    context.set_alpn_protocols(["h2"])
    await writer.start_tls(context, server_hostname="localhost")
    return reader, writer


async def test_a_reset_by_an_http2_client_is_the_clients(proxy: RunningProxy, start_upstream: StartUpstream) -> None:
    reset, gone = threading.Event(), threading.Event()

    def whole_then_open(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        send = start_stream(handler)
        send(event("all of it") + b"data: [DONE]\n\n")
        assert reset.wait(20)
        try:
            while True:
                send(b": ping\n\n")
                gone.wait(0.05)
        finally:
            gone.set()

    upstream = start_upstream(whole_then_open)
    reader, writer = await _tunnel(proxy, upstream.port)
    http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    http2.initiate_connection()
    fields = {":method": "POST", ":scheme": "https", ":authority": f"localhost:{upstream.port}", ":path": PATH}
    http2.send_headers(1, [*fields.items(), ("content-type", "application/json")])
    http2.send_data(1, b'{"messages": []}', end_stream=True)
    writer.write(http2.data_to_send())
    got = b""
    while b"[DONE]" not in got:
        for happened in http2.receive_data(await reader.read(65536)):
            if isinstance(happened, h2.events.DataReceived):
                got += happened.data
    http2.reset_stream(1, error_code=8)
    writer.write(http2.data_to_send())
    reset.set()
    assert await asyncio.to_thread(gone.wait, 20)
    (exchange,) = await asyncio.to_thread(proxy.exchanges, upstream)
    assert exchange.response.end == "client_disconnect"
    assert exchange.response.body.startswith(event("all of it") + b"data: [DONE]\n\n")
    assert exchange.request.http_version == "HTTP/2.0"
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def test_a_reset_by_an_http2_upstream_is_the_upstreams(
    proxy: RunningProxy, upstream_ca: tuple[object, object]
) -> None:
    """mitmproxy's words for both are the same: "stream reset by client"."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        http2.initiate_connection()
        writer.write(http2.data_to_send())
        while data := await reader.read(65536):
            for happened in http2.receive_data(data):
                if isinstance(happened, h2.events.StreamEnded):
                    http2.send_headers(
                        happened.stream_id or 0, [(":status", "200"), ("content-type", "text/event-stream")]
                    )
                    http2.send_data(happened.stream_id or 0, event("half"))
                    http2.reset_stream(happened.stream_id or 0, error_code=2)
            writer.write(http2.data_to_send())
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(str(upstream_ca[1]))
    context.set_alpn_protocols(["h2"])
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    port = server.sockets[0].getsockname()[1]
    client = proxy.client(http2=True)

    def call() -> str:
        try:
            return client.post(f"https://localhost:{port}{PATH}", json={"messages": []}).text
        except Exception as error:  # noqa: BLE001 — the client's own kind of failure
            return type(error).__name__

    assert await asyncio.to_thread(call) != event("half").decode()
    (exchange,) = await asyncio.to_thread(proxy.exchanges, port)
    assert (exchange.response.end, exchange.response.body) == ("upstream_error", event("half"))
    client.close()  # the proxy then lets go of the upstream
    server.close()
    await server.wait_closed()
