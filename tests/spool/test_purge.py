"""A spool is made anew when somebody asks for it, by its producer, and then has nothing of what was dropped."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stepwell.errors import SpoolError
from stepwell.spool import Entry, Spool, SpoolReader, SpoolWriter, ask_purge, purge_asked, purge_dead
from stepwell.spool import _spool as spool_module
from stepwell.spool._purge import serve_purge

SECRET = b"Rumpelstilzchen "


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


def fill(spool: Spool, count: int = 20, body: bytes = SECRET * 300) -> None:
    spool.append([Entry(id=f"e{n}", kind="k", body=body) for n in range(spool.bytes, spool.bytes + count)])


def holding(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if SECRET in path.read_bytes()]


def test_what_was_dropped_stays_in_the_file_until_it_is_made_anew(path: Path) -> None:
    with Spool(path) as spool:
        spool._db.execute("PRAGMA secure_delete = OFF")  # which some builds of SQLite have on
        fill(spool)
        assert spool.trim(20) == 20
        assert holding(path.parent), "or this tests nothing"
        assert spool.purge(20)
        assert holding(path.parent) == []
        fill(spool, body=b"later")
        assert spool.append([Entry(id="last", kind="k")]) == [41]


def test_not_before_everything_up_to_the_mark_is_dropped(path: Path) -> None:
    with Spool(path) as spool:
        fill(spool)
        spool.trim(19)
        assert not spool.purge(20)
        assert spool.purge(19)


def test_not_while_much_waits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "_PURGED_AT_ONCE", 1000)
    with Spool(path) as spool:
        fill(spool)
        assert not spool.purge(0)
        spool.trim(20)
        assert spool.purge(0)


def test_a_call_in_flight_is_waited_for(path: Path) -> None:
    with Spool(path) as spool:
        spool.append([Entry(id="asked", kind="request", body=SECRET, opens=True)])
        ask_purge(path)
        spool.trim(1)
        serve_purge(spool)
        assert purge_asked(path)
        spool.append([Entry(id="answered", kind="response", ref="asked", body=SECRET)])
        spool.trim(2)
        serve_purge(spool)
        assert not purge_asked(path)
        assert holding(path.parent) == []


def test_a_writer_does_what_it_is_asked(path: Path) -> None:
    cursor = [0]
    writer = SpoolWriter(Spool(path), cursor=lambda _: cursor[0])
    try:
        writer.submit(*(Entry(id=f"e{n}", kind="k", body=SECRET * 300) for n in range(20))).result(10)
        ask_purge(path)
        cursor[0] = 20
        deadline = time.monotonic() + 20
        while purge_asked(path) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not purge_asked(path)
        assert holding(path.parent) == []
        assert writer.submit(Entry(id="more", kind="k")).result(10) == [21]
    finally:
        writer.close()


def test_a_dead_producer_is_stood_in_for(path: Path) -> None:
    with Spool(path) as spool:
        fill(spool)
        ask_purge(path)
        with pytest.raises(SpoolError, match="in use"):
            purge_dead(path, 20)
    purge_dead(path, 10)
    assert purge_asked(path)
    purge_dead(path, 20)
    assert not purge_asked(path)
    assert holding(path.parent) == []
    with SpoolReader(path) as reader:
        assert reader.last() == 20


def test_nobody_asked(path: Path) -> None:
    with Spool(path) as spool:
        fill(spool, 1)
        serve_purge(spool)
        assert spool.bytes > 0


def test_who_asks_while_it_is_made_anew_is_not_passed_over(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Spool(path) as spool:
        fill(spool)
        spool.trim(20)
        ask_purge(path)
        purge = spool.purge

        def slow(mark: int) -> bool:
            done = purge(mark)
            fill(spool, 1)
            ask_purge(path)
            return done

        with monkeypatch.context() as patch:
            patch.setattr(spool, "purge", slow)
            serve_purge(spool)
        assert purge_asked(path)
        serve_purge(spool)
        assert purge_asked(path), "what was there when it was asked has to go first"
        spool.trim(21)
        serve_purge(spool)
        assert not purge_asked(path)
        assert holding(path.parent) == []


def test_one_of_a_similar_name_was_not_asked(path: Path) -> None:
    with Spool(path) as spool, Spool(path.with_name("s.1.db")) as other, Spool(path.with_name("s.1.purge.db")):
        fill(other, 2)
        ask_purge(other.path)
        assert purge_asked(other.path) and not purge_asked(spool.path)
        other.trim(2)
        serve_purge(other)
        assert not purge_asked(other.path)
