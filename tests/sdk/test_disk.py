from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from stepwell.errors import SpoolError
from stepwell.sdk._disk import Disk, folder_for, left_behind
from stepwell.sdk._item import Item, Kind
from stepwell.sdk.offline import undelivered
from stepwell.spool import Entry, Spool


def items(*ids: str, kind: Kind = "step", size: int = 10) -> list[Item]:
    return [Item(kind, id, b"x" * size) for id in ids]


def ids(batch: list[Item]) -> list[str]:
    return [item.id for item in batch]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sdk" / "gateway"


def abandoned(folder: Path, *ids: str, mtime: int = 1) -> Path:
    """A spool as a process leaves it that is gone."""
    disk = Disk.fresh(folder)
    disk.append(items(*ids))
    disk.close()
    os.utime(disk.path, (mtime, mtime))
    return disk.path


def test_a_queue_that_is_kept_until_settled(folder: Path) -> None:
    disk = Disk.fresh(folder)
    assert not folder.exists() and (disk.count, disk.bytes) == (0, 0)
    disk.append(items("a", "b"))
    disk.append(items("a", kind="trajectory"))  # ids may come again
    disk.append([Item("exchange", "ü", b"{}", (("response_body", "", b"\xff"),))])
    assert ids(disk.take(50)) == ["a", "b"] and ids(disk.take(1)) == ["a"]
    assert disk.count == 4 and disk.bytes > 0
    disk.settle(1)
    assert ids(disk.take(50)) == ["b"]
    disk.settle(1)
    assert [(item.kind, item.id) for item in disk.take(50)] == [("trajectory", "a")]
    disk.settle(1)
    (last,) = disk.take(50)
    assert (last.kind, last.id, last.whole()) == ("exchange", "ü", b'{,"response_body_b64":"/w=="}')
    disk.settle(1)
    assert (disk.take(50), disk.count, disk.bytes) == ([], 0, 0)
    disk.append(items("c"))
    assert ids(disk.take(50)) == ["c"]
    disk.close()


def test_batches_are_bounded_but_never_empty(folder: Path) -> None:
    disk = Disk.fresh(folder)
    disk.append(items("a", size=3 << 20) + items("b", "c", size=600 << 10))
    assert ids(disk.take(50)) == ["a"]
    disk.settle(1)
    assert ids(disk.take(50)) == ["b"]
    disk.close()


def test_an_empty_one_leaves_nothing_and_a_private_folder(folder: Path) -> None:
    disk = Disk.fresh(folder)
    disk.append(items("a"))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    disk.settle(1)
    disk.close()
    assert list(folder.iterdir()) == []
    with pytest.raises(SpoolError, match="closed"):
        disk.append(items("b"))


def test_the_bound_refuses_and_keeps_what_it_has(folder: Path) -> None:
    disk = Disk.fresh(folder, 1000)
    disk.append(items("a", size=500))
    with pytest.raises(SpoolError):
        disk.append(items("b", size=500))
    assert ids(disk.take(50)) == ["a"]
    disk.settle(1)
    disk.append(items("b", size=500))
    assert ids(disk.take(50)) == ["b"]
    disk.close()


def test_what_is_left_is_found_oldest_first_and_goes_on_where_it_was(folder: Path) -> None:
    abandoned(folder, "c", mtime=200)
    first = abandoned(folder, "a", "b", mtime=100)
    disk = left_behind(folder, None, set())
    assert disk is not None and disk.path == first and disk.count == 2
    disk.settle(1)
    disk.close()
    again = left_behind(folder, None, set())
    assert again is not None and again.path != first  # written to just now
    again.settle(1)
    again.close()
    rest = left_behind(folder, None, set())
    assert rest is not None and ids(rest.take(50)) == ["b"] and rest.count == 1
    rest.settle(1)
    rest.close()
    assert left_behind(folder, None, set()) is None and list(folder.iterdir()) == []


def test_those_of_the_living_and_our_own_are_left_alone(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    alive, own = Disk.fresh(folder), Disk.fresh(folder)
    alive.append(items("a"))
    own.append(items("b"))
    passed_over: set[str] = set()
    assert left_behind(folder, own.path, passed_over) is None
    assert not passed_over and not caplog.records  # nothing is wrong with them
    alive.close()
    found = left_behind(folder, own.path, passed_over)
    assert found is not None and found.path == alive.path
    found.close()
    own.close()


def test_another_process_may_be_faster(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It took the spool over between our look at the lock and our own attempt."""
    other = Disk.fresh(folder)
    other.append(items("a"))
    looks = iter([False, True])
    monkeypatch.setattr("stepwell.spool.held", lambda lock: next(looks))
    passed_over: set[str] = set()
    assert left_behind(folder, None, passed_over) is None
    assert not passed_over and not caplog.records and next(looks, None) is None
    other.close()


def test_what_cannot_be_read_is_named_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "stepwell.sdk")
    good = abandoned(folder, "a", mtime=2**31)
    (folder / "0-broken.db").write_bytes(b"no database at all" * 100)
    passed_over: set[str] = set()
    for _ in range(2):
        disk = left_behind(folder, None, passed_over)
        assert disk is not None and disk.path == good
        disk.close()
    assert len([record for record in caplog.records if "stays where it is" in record.getMessage()]) == 1
    assert (folder / "0-broken.db").exists()


def test_a_kind_of_a_later_version_is_not_guessed_at(folder: Path) -> None:
    with Spool(folder / "later.db") as spool:
        spool.append([Entry("1", "dream", b"id", b"{}")])
    disk = left_behind(folder, None, set())
    assert disk is not None
    with pytest.raises(SpoolError, match="upgrade"):
        disk.take(50)
    disk.close()


def test_what_waits_is_counted_for_all_gateways(caplog: pytest.LogCaptureFixture) -> None:
    assert undelivered() == {}
    alive = Disk.fresh(folder_for("http://a"))
    alive.append(items("a", "b", "c"))
    gone = abandoned(folder_for("http://b"), "d")
    broken = gone.with_name("broken.db")
    broken.write_bytes(b"no database at all" * 100)
    assert undelivered() == {alive.path: 3, gone: 1, broken: 1}
    assert str(broken) in caplog.text
    alive.settle(2)
    assert undelivered()[alive.path] == 1
    alive.settle(1)
    assert alive.path.exists() and alive.path not in undelivered()
    assert ids(alive.take(50)) == []
    alive.close()


def test_a_folder_per_gateway(tmp_path: Path) -> None:
    one, other = folder_for("http://127.0.0.1:8787"), folder_for("http://127.0.0.1:8788")
    assert one != other and one.parent == tmp_path / "home" / "sdk"
    assert folder_for("http://a/b") != folder_for("http://a_b")
    assert left_behind(one, None, set()) is None
