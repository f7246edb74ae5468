"""One commits; when it is gone, another one does, by its own clock; nobody's clock is compared with anybody else's."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import StoreError
from stepwell.warehouse._store import lease as lease_module
from stepwell.warehouse._store.lease import FOLDER, Lease
from stepwell.warehouse._store.objects import FolderObjects, Objects, objects_at


class Clock:
    """Seconds, as the test says."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def objects(tmp_path: Path) -> FolderObjects:
    return FolderObjects(tmp_path)


@pytest.fixture
def clock() -> Clock:
    return Clock()


Make = Callable[..., Lease]


@pytest.fixture
def lease(objects: Objects, clock: Clock) -> Make:
    def make(owner: str, clock: Clock = clock) -> Lease:
        return Lease(objects, owner, beat=1.0, patience=5.0, clock=clock)

    return make


def names(objects: Objects) -> list[str]:
    return [key.removeprefix(f"{FOLDER}/").lstrip("0") for key, _ in objects.listed(FOLDER)]


def test_the_first_has_it_and_the_second_waits(anywhere: Any) -> None:
    objects = objects_at(anywhere.uri, anywhere.options)
    first, second = Lease(objects, "one"), Lease(objects, "two")
    assert first.hold()
    assert first.held
    assert not second.hold()
    assert not second.held
    first.release()
    assert not first.held
    assert second.hold()
    assert not first.hold()


def test_of_many_at_once_one_has_it(anywhere: Any) -> None:
    objects = objects_at(anywhere.uri, anywhere.options)
    leases = [Lease(objects, str(number)) for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert sum(pool.map(Lease.hold, leases)) == 1
    assert sum(lease.hold() for lease in leases) == 1


def test_a_holder_that_beats_keeps_it(lease: Make, clock: Clock) -> None:
    first, second = lease("one"), lease("two")
    for _ in range(40):
        assert first.hold()
        assert not second.hold()
        clock.now += 0.9


def test_a_holder_that_is_gone_is_followed(lease: Make, clock: Clock, objects: Objects) -> None:
    first, second, third = lease("one"), lease("two"), lease("three")
    assert first.hold()
    for _ in range(5):
        assert not second.hold()
        clock.now += 1.0
    assert second.hold(), "it saw the same beat for five seconds"
    assert not third.hold(), "the new holder's beat is new to it"
    assert not first.hold()
    assert names(objects) == ["2", "2.beat"], "nothing is left of the term before"


def test_who_looks_for_the_first_time_waits(lease: Make, clock: Clock) -> None:
    """However long ago the beat was: it cannot know."""
    assert lease("one").hold()
    clock.now += 1000.0
    second = lease("two")
    assert not second.hold()
    clock.now += 4.9
    assert not second.hold()
    clock.now += 0.1
    assert second.hold()


@pytest.mark.parametrize("behind", [-1e9, 1e9])
def test_clocks_are_not_compared(lease: Make, clock: Clock, behind: float) -> None:
    other = Clock(behind)
    first, second = lease("one"), lease("two", other)
    for _ in range(10):
        assert first.hold()
        assert not second.hold()
        clock.now += 1.0
        other.now += 1.0


def test_a_term_without_a_beat_ends_as_well(lease: Make, clock: Clock, objects: Objects) -> None:
    """Its holder died between the two."""
    objects.create(f"{FOLDER}/{1:012d}", b"{}")
    second = lease("two")
    assert not second.hold()
    clock.now += 5.0
    assert second.hold()


def test_an_owner_that_starts_again_goes_on_at_once(lease: Make, objects: Objects) -> None:
    assert lease("one").hold()
    assert lease("one").hold()
    assert names(objects) == ["2", "2.beat"]


def test_a_paused_holder_that_resumes_finds_out(lease: Make, clock: Clock) -> None:
    first, second = lease("one"), lease("two")
    assert first.hold()
    assert not second.hold()
    clock.now += 6.0
    assert second.hold()
    assert not first.hold()
    assert not first.held
    first.release()
    assert second.hold(), "what the old holder says of its own term is not about the new one"


def test_a_pause_in_which_nobody_came_changes_nothing(lease: Make, clock: Clock, objects: Objects) -> None:
    first = lease("one")
    assert first.hold()
    clock.now += 600.0
    assert first.hold()
    assert names(objects) == ["1", "1.beat"]


def test_a_late_beat_of_an_old_term_gives_nothing_back(lease: Make, clock: Clock, objects: Objects) -> None:
    """The paused holder had looked already, and writes its beat when another has the lease."""
    first, second = lease("one"), lease("two")
    first.hold()
    second.hold()
    clock.now += 6.0
    second.hold()
    objects.put(f"{FOLDER}/{1:012d}.beat", b"7")
    clock.now += 1.5
    assert second.hold()
    assert not first.hold()
    third = lease("three")
    clock.now += 1.5
    assert second.hold()
    assert not third.hold()


def test_a_late_term_below_the_newest_holds_for_a_beat_at_most(lease: Make, clock: Clock, objects: Objects) -> None:
    """Another looked before two terms went by, and creates the one that was removed since."""
    late = lease("late")
    found = lease_module._found(objects)
    for owner in ("one", "two"):
        holder = lease(owner)
        holder.hold()
        holder.release()
    newest = lease("three")
    assert newest.hold()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lease_module, "_found", lambda _: found)
        assert late.hold()
    clock.now += 1.1
    assert newest.hold()
    assert not late.hold()


def counted(monkeypatch: pytest.MonkeyPatch, name: str) -> list[str]:
    """Every call of a method from now on."""
    asked: list[str] = []
    real = getattr(FolderObjects, name)

    def call(self: FolderObjects, key: str) -> Any:
        asked.append(key)
        return real(self, key)

    monkeypatch.setattr(FolderObjects, name, call)
    return asked


def test_asking_often_costs_nothing(lease: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    first, asked = lease("one"), counted(monkeypatch, "listed")
    first.hold()
    asked.clear()
    for _ in range(100):
        assert first.hold()
    assert asked == []
    clock.now += 1.0
    first.hold()
    assert len(asked) == 1


def test_who_waits_asks_who_holds_it_once(lease: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second, asked = lease("one"), lease("two"), counted(monkeypatch, "get")
    for _ in range(5):
        first.hold()
        second.hold()
        clock.now += 1.0
    assert len(asked) == 1


def test_nothing_is_known_while_the_store_fails(lease: Make, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = lease("one"), lease("two")
    assert first.hold()
    clock.now += 1.0

    def fail(*_: Any) -> None:
        raise StoreError("the store failed")

    for name in ("listed", "put"):
        with monkeypatch.context() as patch:
            patch.setattr(FolderObjects, name, fail)
            with pytest.raises(StoreError):
                first.hold()
    assert first.hold(), "as soon as it answers, and nobody else came"
    assert not second.hold()


@pytest.mark.parametrize("broken", ["put", "delete"])
def test_a_term_whose_beginning_failed_halfway_is_gone_on_with(
    lease: Make, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    old = lease("old")
    old.hold()
    old.release()
    first = lease("one")

    def fail(*_: Any) -> None:
        raise StoreError("the store failed")

    with monkeypatch.context() as patch:
        patch.setattr(FolderObjects, broken, fail)
        with pytest.raises(StoreError):
            first.hold()
    assert first.hold()
    assert not lease("two").hold()


def test_a_term_that_was_created_although_the_store_failed(lease: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store timed out after it had done it: nobody else holds it, so nobody is waited for."""
    first, real = lease("one"), FolderObjects.create

    def late(self: FolderObjects, key: str, data: bytes) -> bool:
        real(self, key, data)
        raise StoreError("timed out")

    with monkeypatch.context() as patch:
        patch.setattr(FolderObjects, "create", late)
        with pytest.raises(StoreError):
            first.hold()
    assert first.hold()
