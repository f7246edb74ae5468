"""What lies beside the tables: what is litter, and what only looks like it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.stores import Place

from stepwell.errors import StoreError
from stepwell.warehouse._store.flush import Flush, Inbox
from stepwell.warehouse._store.lease import Lease
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._upkeep.beside import UNFINISHED, UNREACHED, Beside, beside, litter, unreached
from stepwell.warehouse._upkeep.maintain import Maintainer

NOW = 1_000_000.0


def old(*keys: str, age: float = 2 * UNFINISHED) -> list[Beside]:
    return [Beside(key, 1, NOW - age) for key in keys]


def test_it_is_listed_without_the_tables(anywhere: Place) -> None:
    warehouse = anywhere.open()
    assert beside(anywhere.uri, anywhere.options) == []
    objects = objects_at(anywhere.uri, anywhere.options)
    Inbox(objects).announce(Flush("w", 1, {"p": (0, 1)}, {}))
    assert Lease(objects, "me").hold()
    found = beside(warehouse.uri, anywhere.options)
    assert [one.key for one in found] == ["_inbox/w/000000000001", "_lease/000000000001", "_lease/000000000001.beat"]
    assert all(abs(time.time() - one.at) < 3600 for one in found)
    assert found[0].size == len(Flush("w", 1, {"p": (0, 1)}, {}).encoded())


def test_a_store_that_fails_is_said(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="the store failed on"):
        beside(str(tmp_path / "nowhere"), {})


def test_what_an_interrupted_process_left_is_litter() -> None:
    left = [
        "_inbox/w/.000000000001.abc.tmp",
        "_lease/.000000000001.beat.abc.tmp",
        ".stepwell-probe-0",
        "sub/.stepwell-probe-1",
    ]
    kept = ["_inbox/w/000000000001", "notes.tmp", "README", "_later/x"]
    assert [one.key for one in litter(old(*left, *kept), NOW)] == left
    assert litter(old(*left, age=UNFINISHED - 1), NOW) == [], "somebody may be at it"


def test_of_the_lease_all_but_the_newest_term() -> None:
    there = old(
        "_lease/000000000003",
        "_lease/000000000004.ended",
        "_lease/000000000005",
        "_lease/000000000005.beat",
        "_lease/x",
    )
    assert [one.key for one in litter(there, NOW)] == ["_lease/000000000003", "_lease/000000000004.ended"]


def test_announcements_that_wait_for_what_never_came(anywhere: Place) -> None:
    warehouse = anywhere.open()
    objects = objects_at(anywhere.uri, anywhere.options)
    inbox = Inbox(objects)
    for number, ranges in enumerate([{"p": (0, 1)}, {"p": (1, 2)}, {"p": (0, 1), "q": (4, 5)}], 1):
        inbox.announce(Flush(f"w{number}", number, ranges, {}))
    objects.put("_inbox/w9/000000000001", b"who knows")
    there = beside(anywhere.uri, anywhere.options)
    later = max(one.at for one in there) + UNREACHED + 1
    gone = unreached(anywhere.uri, anywhere.options, there, {}, later)
    assert [one.key.split("/")[1] for one in gone] == ["w2", "w3"]
    assert unreached(anywhere.uri, anywhere.options, there, {"p": 1, "q": 4}, later) == []
    assert unreached(anywhere.uri, anywhere.options, there, {}, later - 5000) == []
    said = Maintainer(anywhere.uri, warehouse.tables, anywhere.options, now=lambda: later).round()
    assert [key.split("/")[1] for key in said.litter] == ["w2", "w3"]
    assert [key.split("/")[1] for key in inbox.keys(None)] == ["w1", "w9"]


def test_a_round_tidies_up(local: Place) -> None:
    warehouse = local.open()
    left = Path(local.uri) / "_inbox" / "w" / ".1.abc.tmp"
    left.parent.mkdir(parents=True)
    left.touch()
    long_ago = time.time() - 7200
    os.utime(left, (long_ago, long_ago))
    assert warehouse.maintain(dry_run=True).litter == ["_inbox/w/.1.abc.tmp"]
    assert left.exists()
    assert warehouse.maintain().litter == ["_inbox/w/.1.abc.tmp"]
    assert not left.exists()
