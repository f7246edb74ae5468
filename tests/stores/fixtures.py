"""Fixtures around the stores; a conftest takes those that it wants by importing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.stores._bucket import local_bucket
from tests.stores._faulty import FaultyStore, faulty_store
from tests.stores._moto import moto_store
from tests.stores._place import Endpoint, Place

BACKENDS = ("local", "moto", "localbucket", "rough")
"""`rough` is moto with a fault in one request of ten, all of them such as a client gets over by asking again."""


@pytest.fixture(scope="session")
def moto_endpoint() -> Iterator[Endpoint]:
    with moto_store() as server:
        yield server


@pytest.fixture(scope="session")
def localbucket_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with local_bucket(tmp_path_factory.mktemp("buckets")) as server:
        yield server


@pytest.fixture
def faulty(moto_endpoint: Endpoint) -> Iterator[FaultyStore]:
    """moto behind a proxy without faults; the test adds them."""
    with faulty_store(moto_endpoint, seed=7) as store:
        yield store


@pytest.fixture(params=BACKENDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An empty place of each kind. `-k local` leaves the slower ones out."""
    make: dict[str, Callable[[], Place]] = {
        "local": lambda: Place(str(tmp_path / "warehouse")),
        "moto": lambda: request.getfixturevalue("moto_endpoint").place(),
        "localbucket": lambda: request.getfixturevalue("localbucket_endpoint").place(),
        "rough": lambda: rough(request.getfixturevalue("faulty")),
    }
    return make[request.param]()


def rough(faulty: FaultyStore) -> Place:
    """A place behind errors, resets and halves of answers. Lance asks ten times, so that a chance of one in ten is got over."""
    place = faulty.place()
    faulty.faults.spread = 0.004
    # Not for boto3's probe of conditional writes, which says at once that a store is not to be trusted today.
    lance = r"\.lance/"
    faulty.faults.add("status", path=lance, chance=0.05)
    faulty.faults.add("reset", path=lance, chance=0.03)
    faulty.faults.add("cut answer", methods=("GET",), path=lance, chance=0.02)
    return place
