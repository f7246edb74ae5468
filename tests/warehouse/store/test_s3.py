"""A bucket is tried before it is trusted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest

from stepwell.errors import StoreError
from stepwell.warehouse import Warehouse
from stepwell.warehouse._store.s3 import check_store, is_object_store

KEYS = {"aws_access_key_id": "KEYID", "aws_secret_access_key": "SECRETKEY"}


class Bucket(ThreadingHTTPServer):
    """The little of S3 that the probe needs: HEAD answers `head`; a second PUT of a key answers `second`."""

    daemon_threads = True

    def __init__(self, head: int, second: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.head, self.second = head, second
        self.keys: set[str] = set()
        self.requests: list[tuple[str, str]] = []
        self.options = {"aws_endpoint": f"http://127.0.0.1:{self.server_port}", "allow_http": "true", **KEYS}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def bucket(self) -> Bucket:
        assert isinstance(self.server, Bucket)
        return self.server

    def _answer(self, status: int) -> None:
        self.bucket.requests.append((self.command, self.path))
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_HEAD(self) -> None:
        self._answer(self.bucket.head)

    def do_PUT(self) -> None:
        assert self.headers["If-None-Match"] == "*"
        known = self.path in self.bucket.keys
        self.bucket.keys.add(self.path)
        self._answer(self.bucket.second if known else 200)

    def do_DELETE(self) -> None:
        self.bucket.keys.discard(self.path)
        self._answer(204)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    head, second = request.param
    with Bucket(head, second) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("bucket", [(200, 412), (200, 409)], indirect=True)
def test_a_store_that_keeps_its_word_is_taken(bucket: Bucket) -> None:
    check_store("s3://data/prefix", bucket.options)
    assert bucket.keys == set(), "nothing is left behind"
    assert {
        path.startswith("/data/prefix/.stepwell-probe-") for method, path in bucket.requests if method == "PUT"
    } == {True}


@pytest.mark.parametrize("bucket", [(200, 200)], indirect=True)
def test_a_store_that_ignores_conditions_is_refused(bucket: Bucket) -> None:
    with pytest.raises(StoreError, match=r"ignores If-None-Match.*is not written to"):
        Warehouse.open("s3://data/prefix", storage_options=bucket.options)
    assert bucket.keys == set()
    assert {".stepwell-probe-" in path for method, path in bucket.requests if method == "PUT"} == {True}


@pytest.mark.parametrize("bucket", [(200, 200)], indirect=True)
def test_a_reader_writes_nothing(bucket: Bucket) -> None:
    check_store("s3://data/prefix", bucket.options, write=False)
    assert [method for method, _ in bucket.requests] == ["HEAD"]


@pytest.mark.parametrize("bucket", [(404, 412), (403, 412), (200, 500)], indirect=True)
def test_what_cannot_be_used_is_named_without_secrets(bucket: Bucket) -> None:
    with pytest.raises(StoreError, match=r"cannot use the bucket 'data' at http://127.0.0.1") as caught:
        check_store("s3://data/prefix", bucket.options)
    assert "SECRETKEY" not in str(caught.value)


def test_moto_keeps_its_word(s3: Any) -> None:
    check_store(s3.uri, s3.options)
    client = boto3.client(
        "s3",
        endpoint_url=s3.options["aws_endpoint"],
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
    assert client.list_objects_v2(Bucket=s3.uri.split("/")[2])["KeyCount"] == 0


def test_an_empty_bucket_is_no_warehouse(s3: Any) -> None:
    with pytest.raises(StoreError, match="there is no table"):
        s3.open(create=False)


@pytest.mark.parametrize(("uri", "expected"), [("s3://b/p", True), ("/data/s3://b", False), ("./warehouse", False)])
def test_is_object_store(uri: str, expected: bool) -> None:
    assert is_object_store(uri) is expected
