"""Streams of an HTTP/2 connection that have ended are forgotten while it lasts.

mitmproxy keeps a note of every stream until its connection closes, in three dicts, and h2 one of the last 65536. An agent's connection
lives for days, so that adds up. A note is dropped when nothing can ask for it any more: mitmproxy's HTTP layer has dropped the stream,
h2 says that it is closed, and a few hundred others have begun since.
"""

# mypy: allow-untyped-calls
# mitmproxy's own functions are annotated in part only.

from __future__ import annotations

from mitmproxy.proxy.layers.http import HttpLayer
from mitmproxy.proxy.layers.http._http2 import Http2Client, Http2Connection
from mitmproxy.proxy.layers.http._http_h2 import BufferedH2Connection

EVERY = 512
"""Streams between two sweeps: each looks at about as many notes."""

BufferedH2Connection.MAX_CLOSED_STREAMS = 1024  # pyright: ignore[reportAttributeAccessIssue] — how the last ones closed decides what a late frame of theirs means


def forget_ended(http: HttpLayer, before: int) -> None:
    """Drop the notes about streams of the agent's with ids below `before` that have ended."""
    for top in http.connections.values():
        layer: object = top
        while not isinstance(layer, Http2Connection) and (child := getattr(layer, "child_layer", None)) is not None:
            layer = child
        if isinstance(layer, Http2Client):
            ended = [theirs for theirs in layer.our_stream_id if theirs < before and theirs not in http.streams]
            for theirs in ended:
                if layer.is_closed(ours := layer.our_stream_id[theirs]):
                    del layer.our_stream_id[theirs], layer.their_stream_id[ours]
                    layer.streams.pop(ours, None)
        elif isinstance(layer, Http2Connection):
            for theirs in [theirs for theirs in layer.streams if theirs < before and theirs not in http.streams]:
                if layer.is_closed(theirs):
                    del layer.streams[theirs]
