"""Hosts that are none of our business: their connections pass as they are, undecrypted."""

# mypy: allow-untyped-calls
# mitmproxy's own functions are annotated in part only.

from __future__ import annotations

from mitmproxy import tls
from mitmproxy.net.tls import starts_like_tls_record
from mitmproxy.proxy import layer, layers
from mitmproxy.proxy.layers.http import HttpStream
from mitmproxy.proxy.layers.http._upstream_proxy import HttpUpstreamProxy

from stepwell.proxy._hosts import HostTest
from stepwell.proxy._seen import Seen


class Passthrough:
    """Decides per tunnel, by the name in the TLS handshake and the address of the CONNECT."""

    def __init__(self, watched: HostTest, seen: Seen) -> None:
        self._watched = watched
        self._seen = seen

    def tls_clienthello(self, data: tls.ClientHelloData) -> None:
        address = data.context.server.address
        if address is None:
            return  # TLS to the proxy itself: not a tunnel yet
        names = (data.client_hello.sni, address[0])
        if not any(name and self._watched(name, address[1]) for name in names):
            data.ignore_connection = True
            self._seen.host_passed(data.client_hello.sni or address[0], address[1])

    def next_layer(self, next_layer: layer.NextLayer) -> None:
        """A tunnel without TLS in it, of which mitmproxy has decided that it looks like HTTP, or does not."""
        context, found = next_layer.context, next_layer.layer
        address = context.server.address
        if found is None or not address or starts_like_tls_record(next_layer.data_client()):
            return
        above = [other for other in context.layers if other is not found]
        tunnel = bool(above) and isinstance(above[-1], (HttpStream, HttpUpstreamProxy))
        if tunnel and not self._watched(address[0], address[1]):
            self._seen.host_passed(address[0], address[1])
            context.layers[:] = above
            next_layer.layer = layers.TCPLayer(context, ignore=True)
