"""The reading side: order, limits, and never in the producer's way."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stepwell.errors import SpoolError
from stepwell.spool import Entry, Spool, SpoolReader
from stepwell.spool._reader import _LARGE

EntryOf = Callable[..., Entry]


def test_reads_above_a_number_up_to_a_limit(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool, closing(spool):
        spool.append([entry(str(number)) for number in range(1, 8)])
        with SpoolReader(path) as reader:
            assert [r.seq for r in reader.read(0)] == [1, 2, 3, 4, 5, 6, 7]
            assert [r.id for r in reader.read(2, limit=3)] == ["3", "4", "5"]
            assert reader.read(7) == []


def test_a_portion_is_bounded_in_bytes_and_never_empty(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool, SpoolReader(path) as reader:
        spool.append([entry("a", 10), entry("b", 5000), entry("c", 5000), entry("d", 5000)])
        assert [r.id for r in reader.read(0, max_bytes=6000)] == ["a", "b", "c"]
        assert [r.id for r in reader.read(1, max_bytes=1)] == ["b"]


def test_only_those_of_one_kind(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool, SpoolReader(path) as reader:
        spool.append([entry(str(number)) for number in range(3)])
        spool.append([Entry("f1", "feedback", b"{}", b"{}"), entry("4"), Entry("f2", "feedback", b"{}", b"{}")])
        assert [r.id for r in reader.read(0, kind="feedback")] == ["f1", "f2"]
        assert [r.id for r in reader.read(4, kind="feedback", limit=1)] == ["f2"]
        assert reader.read(0, kind="nothing") == []


def test_bodies_of_any_size_come_whole_and_in_order(path: Path, entry: EntryOf) -> None:
    sizes = [0, _LARGE - 1, 1, _LARGE, 3 * _LARGE + 7, 5]
    with Spool(path) as spool, SpoolReader(path) as reader:
        spool.append([Entry(str(size), "step", b"{}", os.urandom(size)) for size in sizes])
        assert [(r.id, len(r.body)) for r in reader.read(0)] == [(str(size), size) for size in sizes]
        assert [reader.get(r.id) for r in reader.read(0)] == reader.read(0)
        assert [r.seq for r in reader.read(0, max_bytes=_LARGE + 400)] == [1, 2, 3, 4]


def test_sees_what_is_written_while_it_is_open(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool, SpoolReader(path) as reader:
        assert (reader.last(), reader.read(0), reader.oldest_ns(0)) == (0, [], None)
        spool.append([entry("a")])
        assert [r.id for r in reader.read(0)] == ["a"]
        spool.append([entry("b")])
        assert reader.last() == 2
        assert reader.oldest_ns(1) == reader.read(1)[0].at_ns
        spool.trim(2)
        assert (reader.last(), reader.read(0)) == (2, [])


def test_a_reader_in_the_middle_of_reading_does_not_stop_the_producer(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool, SpoolReader(path) as reader:
        spool.append([entry(str(number)) for number in range(100)])
        reader._db.execute("BEGIN")
        before = reader.read(0, limit=1)
        spool.append([entry("new")])
        assert spool.trim(50) == 50
        assert reader.read(0, limit=1) == before  # its view is that of its beginning
        reader._db.execute("COMMIT")
        assert reader.read(0, limit=1)[0].seq == 51


def test_finds_a_record_by_id(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool, SpoolReader(path) as reader:
        spool.append([entry("a", 3), entry("b")])
        found = reader.get("a")
        assert found is not None and (found.seq, found.body) == (1, b"xxx")
        assert reader.get("c") is None


def test_says_whether_calls_are_open_and_their_producer_lives(path: Path, entry: EntryOf) -> None:
    spool = Spool(path)
    with SpoolReader(path) as reader:
        assert (reader.alive(), reader.orphans(), reader.lost()) == (True, False, 0)
        spool.append([entry("q", opens=True)])
        assert reader.orphans()
        spool.append([entry("r", ref="q")])
        assert not reader.orphans()
        spool.close()
        assert not reader.alive()


def test_looking_whether_a_producer_lives_does_not_stop_it_from_starting(path: Path) -> None:
    Spool(path).close()
    with SpoolReader(path) as reader:
        for _ in range(20):
            assert not reader.alive()
            with Spool(path):
                assert reader.alive()


def test_never_writes(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool, SpoolReader(path) as reader:
        spool.append([entry("a")])
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            reader._db.execute("DELETE FROM entries")


def test_what_is_no_spool_is_named(tmp_path: Path) -> None:
    empty, text, other = tmp_path / "empty.db", tmp_path / "text.db", tmp_path / "other.db"
    empty.write_bytes(b"")
    text.write_bytes(b"not a database" * 100)
    with closing(sqlite3.connect(other)) as db, db:
        db.execute("CREATE TABLE meta (key TEXT, value TEXT)")
        db.execute("INSERT INTO meta VALUES ('format', 'one'), ('producer', 'p')")
    for path in (empty, text, other, tmp_path / "missing.db", tmp_path):
        with pytest.raises(SpoolError, match=path.name):
            SpoolReader(path)
    assert not (tmp_path / "missing.db").exists()


def test_a_newer_layout_is_refused(path: Path) -> None:
    Spool(path).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE meta SET value = '2' WHERE key = 'format'")
    with pytest.raises(SpoolError, match=r"p\.db has layout 2, this version reads up to 1"):
        SpoolReader(path)


def test_damage_met_while_reading_is_an_error_of_the_spool(path: Path) -> None:
    Spool(path).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("DROP TABLE entries")
    with SpoolReader(path) as reader:
        for act in (lambda: reader.read(0), lambda: reader.get("a"), lambda: reader.oldest_ns(0), reader.orphans):
            with pytest.raises(SpoolError, match=r"p\.db"):
                act()


def test_a_lock_that_is_none_is_an_error_of_the_spool(path: Path) -> None:
    Spool(path).close()
    path.with_suffix(".lock").write_bytes(b"rubbish" * 1000)
    with SpoolReader(path) as reader, pytest.raises(SpoolError, match=r"p\.lock"):
        reader.alive()
