"""A folder of spools."""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from stepwell.spool import LOST, Entry, Record, Spool, SpoolReader, adopt, marks, readers, unreadable

EntryOf = Callable[..., Entry]
Read = Callable[[Path], list[Record]]
Child = Callable[..., "subprocess.Popen[str]"]

DIE_WITH_OPEN_CALLS = """
import os
spool = Spool(path)
spool.append([Entry("q1", "k", opens=True), Entry("q2", "k", opens=True), Entry("r1", "k", ref="q1")])
os._exit(9)
"""


def test_every_spool_has_a_reader_and_a_mark(tmp_path: Path, entry: EntryOf) -> None:
    with Spool(tmp_path / "a.db") as a, Spool(tmp_path / "b.db") as b:
        a.append([entry("1"), entry("2")])
        assert marks(tmp_path) == {a.producer: 2, b.producer: 0}
        a.trim(2)
        assert marks(tmp_path) == {a.producer: 2, b.producer: 0}
        for reader in readers(tmp_path):
            with closing(reader):
                assert reader.alive()


def test_one_that_cannot_be_read_is_named_and_passed_over(
    tmp_path: Path, entry: EntryOf, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "a.db").write_bytes(b"broken" * 1000)
    with Spool(tmp_path / "b.db") as spool:
        spool.append([entry("1")])
        assert marks(tmp_path) == {spool.producer: 1}
    assert "a.db" in caplog.text


def test_an_empty_or_missing_folder_has_none(tmp_path: Path) -> None:
    assert marks(tmp_path) == marks(tmp_path / "missing") == {}


def test_what_is_damaged_at_the_end_is_named(tmp_path: Path, entry: EntryOf) -> None:
    path = tmp_path / "a.db"
    with Spool(path) as spool, Spool(tmp_path / "b.db") as other:
        for number in range(40):
            spool.append([Entry(f"one-{number}", "k", body=f"body {number:02} ".encode() * 300)])
        other.append([entry("q")])
        hurt, whole = spool.producer, other.producer
    raw = path.read_bytes()
    page = int.from_bytes(raw[16:18], "big")
    with path.open("r+b") as file:
        file.seek(raw.rindex(b"body 39") // page * page)
        file.write(b"\xa5" * page)
    with closing(SpoolReader(path)) as reader:
        last = max(record.seq for record in reader.read(0))
    assert last < 40
    found = unreadable(tmp_path, {hurt: last, whole: 1, "elsewhere": 0})
    assert list(found) == [hurt] and str(path) in found[hurt]
    assert unreadable(tmp_path, {hurt: last - 1, whole: 0}) == {}, "there is something to be read"
    assert unreadable(tmp_path, {whole: 0}) == {}


def test_what_a_dead_producer_left_open_is_closed(path: Path, child: Child, records: Read) -> None:
    child(DIE_WITH_OPEN_CALLS, path).wait()
    with closing(SpoolReader(path)) as reader:
        assert reader.orphans() and not reader.alive()
        assert adopt(path)
        assert not reader.orphans()
        assert adopt(path)
    assert [(r.seq, r.kind, r.ref) for r in records(path) if r.kind == LOST] == [(4, LOST, "q2")]


def test_a_living_producer_is_not_adopted(
    path: Path, child: Child, entry: EntryOf, records: Read, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    code = "s = Spool(path); s.append([Entry('q', 'k', opens=True)]); print(1, flush=True); sys.stdin.read()"
    process = child(code, path)
    assert process.stdout is not None and process.stdout.readline() == "1\n"
    with closing(SpoolReader(path)) as reader:
        assert reader.alive() and reader.orphans()
    assert not adopt(path)
    assert "not adopted" in caplog.text
    assert [r.kind for r in records(path)] == ["k"]
