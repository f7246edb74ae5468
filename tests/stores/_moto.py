"""moto's S3, made as strict as a real store about conditional writes.

moto looks whether a key is there and writes it in two steps, so that of two `If-None-Match: *` at once both can win. Here whoever writes
to a key holds that key's lock for the whole request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from tests.stores._place import Endpoint
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler, make_server

_WRITES = ("PUT", "POST", "DELETE")
_LOCKS = 64


class OneWriterPerKey:
    """WSGI middleware: requests that write to the same path come one after the other."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] not in _WRITES:
            return self._app(environ, start_response)
        with self._locks[hash(environ["PATH_INFO"]) % _LOCKS]:
            return list(self._app(environ, start_response))


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"  # clients keep their connections, as with real stores
    disable_nagle_algorithm = True

    def log(self, type: str, message: str, *args: Any) -> None:
        pass


@contextmanager
def moto_store(port: int = 0) -> Iterator[Endpoint]:
    """The server. Its buckets are this process's: a second one shows the same."""
    app = OneWriterPerKey(DomainDispatcherApplication(create_backend_app))
    server = make_server("127.0.0.1", port, app, threaded=True, request_handler=_Quiet)
    assert isinstance(server, ThreadedWSGIServer)
    server.daemon_threads = True  # a connection that a client keeps must not keep this process
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, name="moto", daemon=True)
    thread.start()
    try:
        yield Endpoint(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
