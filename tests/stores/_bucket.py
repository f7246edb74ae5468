"""localbucket: an S3 that keeps each object as a file. A second implementation, so that nothing rests on what moto happens to do.

It removes one object per request, so Lance is told not to ask for many at once.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any

import localbucket
from tests.stores._place import Endpoint, Place


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@dataclass(frozen=True)
class LocalBucket(Endpoint):
    """A running localbucket."""

    def place(self, **options: str) -> Place:
        return super().place(**{"aws_disable_bulk_delete": "true", **options})


@contextmanager
def local_bucket(folder: Path, port: int = 0) -> Iterator[Endpoint]:
    """The server, with its buckets in `folder`."""

    class Handler(localbucket.S3Handler):  # type: ignore[misc,unused-ignore]
        data_root = folder.resolve()
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None:
            pass

    folder.mkdir(parents=True, exist_ok=True)
    with _Server(("127.0.0.1", port), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield LocalBucket(f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
