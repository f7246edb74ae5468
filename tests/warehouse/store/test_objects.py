"""Small objects: the same on a folder and in a bucket, whole or not at all, and created once only."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.stores import FaultyStore, Place

from stepwell.errors import StoreError
from stepwell.warehouse._store.objects import BucketObjects, FolderObjects, Objects, objects_at


@pytest.fixture(params=["folder", "bucket", "bucket without a prefix"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    if request.param == "folder":
        return objects_at(str(tmp_path / "objects"), {})
    place: Place = request.getfixturevalue("moto_endpoint").place()
    return objects_at(place.uri.removesuffix("/warehouse" if "without" in request.param else ""), place.options)


@pytest.fixture
def behind(faulty: FaultyStore) -> Objects:
    """In a bucket whose requests go wrong as the test says."""
    place = faulty.place()
    return objects_at(place.uri, place.options)


def keys(objects: Objects, prefix: str) -> list[str]:
    return [key for key, _ in objects.listed(prefix)]


def test_what_is_put_is_got(objects: Objects) -> None:
    assert objects.get("a/b/c") is None
    objects.put("a/b/c", b"one")
    objects.put("a/b/c", b"two")
    assert objects.get("a/b/c") == b"two"
    objects.put("a/empty", b"")
    assert objects.get("a/empty") == b""


def test_listed_in_order_below_whole_parts(objects: Objects) -> None:
    for key in ("a/2", "a/10", "a/b/1", "ab/1", "c"):
        objects.put(key, b"")
    assert keys(objects, "a") == keys(objects, "a/") == ["a/10", "a/2", "a/b/1"]
    assert keys(objects, "a/b") == ["a/b/1"]
    assert keys(objects, "nothing") == []


def test_more_than_a_page(s3: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = BucketObjects(s3.uri, s3.options)
    for number in range(7):
        objects.put(f"many/{number}", b"")
    pages = objects._client.get_paginator("list_objects_v2")
    paginate = pages.paginate
    monkeypatch.setattr(pages, "paginate", lambda **named: paginate(**named, PaginationConfig={"PageSize": 2}))
    monkeypatch.setattr(objects._client, "get_paginator", lambda _: pages)
    assert keys(objects, "many") == [f"many/{number}" for number in range(7)]


def test_a_tag_changes_with_what_is_written(objects: Objects) -> None:
    objects.put("a/1", b"one")
    [first] = objects.listed("a")
    assert objects.listed("a") == [first]
    objects.put("a/1", b"two")
    [second] = objects.listed("a")
    assert second.tag != first.tag


def test_created_once(objects: Objects) -> None:
    assert objects.create("a/1", b"mine")
    assert objects.create("a/1", b"mine"), "as an earlier try of our own that had got through"
    assert not objects.create("a/1", b"yours")
    assert objects.get("a/1") == b"mine"
    objects.delete(["a/1"])
    assert objects.create("a/1", b"yours")


def test_of_many_at_once_one_creates(objects: Objects) -> None:
    for key in ("a", "b", "c"):
        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(lambda n, key=key: objects.create(f"race/{key}", b"%d" % n), range(8)))
        assert won.count(True) == 1
        assert objects.get(f"race/{key}") == b"%d" % won.index(True)


def test_deleting_what_is_not_there_is_no_error(objects: Objects) -> None:
    objects.put("a/1", b"")
    objects.delete(["a/1", "a/1", "never/there"])
    assert keys(objects, "a") == []


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FolderObjects(tmp_path)
    objects.put("a/1", b"before")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StoreError, match="No space left"):
            objects.put("a/1", b"after")
        with pytest.raises(StoreError, match="No space left"):
            objects.create("a/2", b"after")
    assert objects.get("a/1") == b"before"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["1"], "no half-written file is left"


def test_what_a_dead_writer_left_half_written_is_not_listed(tmp_path: Path) -> None:
    objects = FolderObjects(tmp_path)
    objects.put("a/1", b"")
    (tmp_path / "a" / ".2.0123.tmp").write_bytes(b"ha")
    assert keys(objects, "a") == ["a/1"]


def test_a_file_that_goes_while_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objects = FolderObjects(tmp_path)
    for name in ("1", "2"):
        objects.put(f"a/{name}", b"")
    real = Path.is_file

    def is_file(self: Path) -> bool:
        found = real(self)
        if self.name == "1":
            self.unlink()
        return found

    monkeypatch.setattr(Path, "is_file", is_file)
    assert keys(objects, "a") == ["a/2"]


def test_a_place_that_cannot_be_written_is_a_store_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a file where a folder should be")
    objects = FolderObjects(tmp_path)
    for call in (lambda: objects.put("a/1", b""), lambda: objects.create("a/1", b""), lambda: objects.get("a/1")):
        with pytest.raises(StoreError, match="a/1"):
            call()


def test_created_although_the_answer_was_lost(behind: Objects, faulty: FaultyStore) -> None:
    """The store did it, the client asks again, and is told that it is there already."""
    rule = faulty.faults.add("lost", methods=("PUT",), times=1)
    assert behind.create("a/1", b"mine")
    assert rule.hits == 1
    assert behind.get("a/1") == b"mine"


def test_created_and_removed_in_the_same_moment_is_not_known(behind: Objects, faulty: FaultyStore) -> None:
    faulty.faults.add("status", methods=("PUT",), status=412, code="PreconditionFailed", times=1)
    with pytest.raises(StoreError, match=r"a/1.*try again"):
        behind.create("a/1", b"mine")


@pytest.mark.parametrize("effect", ["status", "reset", "cut answer"])
def test_a_store_that_fails_is_a_store_error(behind: Objects, faulty: FaultyStore, effect: Any) -> None:
    behind.put("a/1", b"x" * 100)
    faulty.faults.add(effect, status=500, code="InternalError")
    for call in (lambda: behind.get("a/1"), lambda: behind.listed("a")):
        with pytest.raises(StoreError, match="the store failed on a"):
            call()
    if effect != "cut answer":  # which has no body to be cut when something is put
        with pytest.raises(StoreError, match="the store failed on a/1"):
            behind.put("a/1", b"")
    faulty.faults.clear()
    assert behind.get("a/1") == b"x" * 100


def test_a_short_failure_is_got_over(behind: Objects, faulty: FaultyStore) -> None:
    faulty.faults.add("status", times=2)
    behind.put("a/1", b"x")
    assert behind.get("a/1") == b"x"
