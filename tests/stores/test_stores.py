"""The stores that other tests rely on do what they say: conditional writes are atomic, and each fault is the one that was asked for."""

from __future__ import annotations

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError, IncompleteReadError
from botocore.exceptions import ConnectionError as NotConnected
from tests.stores import Endpoint, Faults, FaultyStore, faulty_store

from stepwell.errors import StoreError

BODY = b"0123456789" * 1000


@pytest.fixture(params=["moto_endpoint", "localbucket_endpoint", "faulty"])
def server(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def bucket(faulty: FaultyStore) -> str:
    return faulty.place().uri.split("/")[2]


def refused(error: pytest.ExceptionInfo[ClientError]) -> int:
    status: int = error.value.response["ResponseMetadata"]["HTTPStatusCode"]
    return status


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads take turns so often that a look and the write after it are torn apart, as processes on many cores would."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("restless")
def test_one_of_many_conditional_writes_wins(server: Any) -> None:
    """And what it wrote is what is there."""
    bucket, writers = server.place().uri.split("/")[2], 8
    barrier = threading.Barrier(writers)

    def write(writer: int) -> list[int]:
        client, won = server.client(), []
        for key in range(20):
            barrier.wait()
            try:
                client.put_object(Bucket=bucket, Key=f"k{key}", Body=b"%d" % writer, IfNoneMatch="*")
            except ClientError as error:
                assert error.response["ResponseMetadata"]["HTTPStatusCode"] in (409, 412)
            else:
                won.append(key)
        return won

    with ThreadPoolExecutor(writers) as pool:
        won = list(pool.map(write, range(writers)))
    assert sorted(key for keys in won for key in keys) == list(range(20)), "each key once"
    for writer, keys in enumerate(won):
        for key in keys:
            assert server.client().get_object(Bucket=bucket, Key=f"k{key}")["Body"].read() == b"%d" % writer


def test_a_store_without_faults_passes_everything_on(faulty: FaultyStore, bucket: str) -> None:
    client = faulty.client()
    client.put_object(Bucket=bucket, Key="a b/ü", Body=BODY)
    assert client.head_object(Bucket=bucket, Key="a b/ü")["ContentLength"] == len(BODY)
    assert client.get_object(Bucket=bucket, Key="a b/ü", Range="bytes=10-19")["Body"].read() == BODY[10:20]
    assert [item["Key"] for item in client.list_objects_v2(Bucket=bucket)["Contents"]] == ["a b/ü"]
    client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a b/ü"}]})
    assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    _until(lambda: len(faulty.seen) == 6)  # it is noted after it was answered
    assert [seen.method for seen in faulty.seen] == ["PUT", "HEAD", "GET", "GET", "POST", "GET"]


def test_the_next_requests_fail_and_no_others(faulty: FaultyStore, bucket: str) -> None:
    client = faulty.client()
    rule = faulty.faults.add("status", methods=("PUT",), path="/wanted", times=2)
    client.put_object(Bucket=bucket, Key="other", Body=BODY)
    for _ in range(2):
        with pytest.raises(ClientError, match="SlowDown") as caught:
            client.put_object(Bucket=bucket, Key="wanted", Body=BODY)
        assert refused(caught) == 503
    client.put_object(Bucket=bucket, Key="wanted", Body=BODY)
    assert rule.hits == 2


@pytest.mark.parametrize(
    ("effect", "carried_out"), [("reset", False), ("cut upload", False), ("lost", True), ("hang", False)]
)
def test_a_write_without_an_answer(faulty: FaultyStore, bucket: str, effect: Any, carried_out: bool) -> None:
    client = faulty.client()
    faulty.faults.add(effect, times=1, seconds=0.05)
    with pytest.raises((NotConnected, BotoCoreError)) as caught:
        client.put_object(Bucket=bucket, Key="k", Body=BODY)
    assert not isinstance(caught.value, ClientError)
    assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == carried_out


def test_half_an_answer(faulty: FaultyStore, bucket: str) -> None:
    client = faulty.client()
    client.put_object(Bucket=bucket, Key="k", Body=BODY)
    faulty.faults.add("cut answer", times=1)
    with pytest.raises((IncompleteReadError, BotoCoreError)):
        client.get_object(Bucket=bucket, Key="k")["Body"].read()
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == BODY


def test_conditions_can_be_ignored(faulty: FaultyStore, bucket: str) -> None:
    client = faulty.client()
    faulty.faults.conditions = False
    for _ in range(2):
        client.put_object(Bucket=bucket, Key="k", Body=BODY, IfNoneMatch="*")
    faulty.faults.clear()
    with pytest.raises(ClientError) as caught:
        client.put_object(Bucket=bucket, Key="k", Body=BODY, IfNoneMatch="*")
    assert refused(caught) == 412


def test_a_full_store_reads_and_removes(faulty: FaultyStore, bucket: str) -> None:
    client = faulty.client()
    client.put_object(Bucket=bucket, Key="k", Body=BODY)
    rule = faulty.faults.full()
    for write in (client.put_object, client.create_multipart_upload):
        with pytest.raises(ClientError, match="InsufficientStorage"):
            write(Bucket=bucket, Key="l")
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == BODY
    client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}]})
    faulty.faults.remove(rule)
    client.put_object(Bucket=bucket, Key="l", Body=BODY)


def test_a_store_that_may_only_be_read(faulty: FaultyStore, bucket: str) -> None:
    client = faulty.client()
    faulty.faults.denied()
    assert client.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    with pytest.raises(ClientError, match="AccessDenied"):
        client.put_object(Bucket=bucket, Key="k", Body=BODY)


def test_a_store_that_is_away_comes_back_at_the_same_place(faulty: FaultyStore, bucket: str) -> None:
    client = faulty.client()
    client.put_object(Bucket=bucket, Key="k", Body=BODY)
    faulty.away()
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.1", faulty.port)):
        pass
    with pytest.raises(NotConnected):  # also where a connection was open
        client.get_object(Bucket=bucket, Key="k")
    faulty.back()
    assert client.get_object(Bucket=bucket, Key="k")["Body"].read() == BODY


def test_going_away_ends_what_is_under_way(faulty: FaultyStore, bucket: str) -> None:
    client = faulty.client()
    rule = faulty.faults.add("hang", times=1, seconds=60)
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(client.put_object, Bucket=bucket, Key="k", Body=BODY)
        _until(lambda: rule.hits == 1)
        faulty.away()
        assert isinstance(call.exception(timeout=30), BotoCoreError)
    faulty.back()


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_latency_is_waited_for(faulty: FaultyStore, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("tests.stores._faulty.time.sleep", waited.append)
    faulty.faults.latency, faulty.faults.spread = 0.025, 0.01
    faulty.client().list_objects_v2(Bucket=bucket)
    assert len(waited) == 1 and 0.025 <= waited[0] < 0.035


def test_the_same_seed_strikes_the_same_requests() -> None:
    def struck(seed: int) -> list[bool]:
        faults = Faults(seed)
        faults.add("status", chance=0.3)
        return [faults.strike("GET", "/k") is not None for _ in range(200)]

    assert struck(1) == struck(1) != struck(2)
    assert 30 < sum(struck(1)) < 90


def test_a_store_that_ignores_conditions_is_refused_as_a_warehouse(moto_endpoint: Endpoint) -> None:
    with faulty_store(moto_endpoint) as store:
        place = store.place()
        store.faults.conditions = False
        with pytest.raises(StoreError, match="ignores If-None-Match"):
            place.open()
