"""The producer's side: order, numbers, durability, bounds, and what a reopened spool makes of a dead owner's calls."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest

from stepwell.errors import SpoolError, SpoolFull
from stepwell.spool import LOST, Entry, Record, Spool, SpoolReader

EntryOf = Callable[..., Entry]
Read = Callable[[Path], list[Record]]
Child = Callable[..., "subprocess.Popen[str]"]


def test_entries_come_back_as_they_went_in_order(path: Path, records: Read) -> None:
    with Spool(path) as spool:
        assert spool.append([Entry("a", "one", b"h", b"\0\xff", None), Entry("b", "two", ref="a")]) == [1, 2]
        assert spool.append([Entry("c", "three")]) == [3]
        found = records(path)
    assert [(r.seq, r.id, r.kind, r.ref, r.head, r.body) for r in found] == [
        (1, "a", "one", None, b"h", b"\0\xff"),
        (2, "b", "two", "a", b"", b""),
        (3, "c", "three", None, b"", b""),
    ]
    assert found[0].at_ns <= found[-1].at_ns


def test_a_known_id_answers_with_its_first_number_and_changes_nothing(
    path: Path, entry: EntryOf, records: Read
) -> None:
    with Spool(path) as spool:
        assert spool.append([entry("a", 10), entry("b"), entry("a", 99)]) == [1, 2, 1]
        size = spool.bytes
        assert spool.append([entry("b", 5), entry("a")]) == [2, 1]
        assert spool.bytes == size
        assert [(r.id, len(r.body)) for r in records(path)] == [("a", 10), ("b", 0)]


def test_a_known_id_uses_no_number_up(path: Path, entry: EntryOf) -> None:
    """A highest number that no record has would never be committed, and a trajectory that waits for it never complete."""
    with Spool(path) as spool:
        spool.append([entry("a"), entry("a"), entry("a")])
        with closing(SpoolReader(path)) as reader:
            assert reader.last() == 1
        assert spool.append([entry("b")]) == [2]


def test_nothing_to_append_is_no_transaction(path: Path, entry: EntryOf) -> None:
    with Spool(path, max_bytes=0) as spool:
        assert spool.append([]) == []


def test_numbers_are_never_used_twice(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool:
        spool.append([entry("a"), entry("b")])
        assert spool.trim(2) == 2
        assert spool.append([entry("c")]) == [3]
        spool.trim(3)
    with Spool(path) as spool:
        assert spool.append([entry("d")]) == [4]
        with closing(SpoolReader(path)) as reader:
            assert reader.last() == 4


def test_the_producer_is_the_same_after_a_restart_and_another_elsewhere(path: Path) -> None:
    names = []
    for place in (path, path, path.with_name("q.db")):
        with Spool(place) as spool:
            names.append(spool.producer)
    assert names[0] == names[1] != names[2]
    assert names[0].startswith("p-") and names[2].startswith("q-")


def test_a_transaction_is_kept_whole_or_not_at_all(path: Path, entry: EntryOf, records: Read) -> None:
    with Spool(path) as spool:
        spool.append([entry("a")])
        with pytest.raises(SpoolError, match="cannot write"):
            spool.append([entry("b"), entry("half a pair \ud800")])
        assert [r.id for r in records(path)] == ["a"]
        assert spool.bytes == entry("a").size
        assert spool.append([entry("b")]) == [2]


def test_a_full_spool_refuses_and_keeps_everything(path: Path, entry: EntryOf, records: Read) -> None:
    with Spool(path, max_bytes=3 * entry("a", 100).size) as spool:
        spool.append([entry("a", 100), entry("b", 100)])
        with pytest.raises(SpoolFull, match="ingest"):
            spool.append([entry("c", 100), entry("d", 100)])
        assert spool.append([entry("e", 100)]) == [3]
        with pytest.raises(SpoolFull):
            spool.append([entry("f")])
        assert [r.id for r in records(path)] == ["a", "b", "e"]
        assert spool.trim(1) == 1
        assert spool.append([entry("f", 100)]) == [4]


def test_what_could_never_fit_is_said(path: Path, entry: EntryOf, records: Read) -> None:
    big, half = entry("a", 1000), entry("b", 500)
    with Spool(path, max_bytes=1000) as spool:
        with pytest.raises(SpoolFull, match=f"the entry itself is {big.size} bytes, more than the spool .* may hold"):
            spool.append([big])
        with pytest.raises(SpoolFull, match=f"the 2 entries together are {2 * half.size} bytes, more than"):
            spool.append([half, entry("c", 500)])
        assert spool.append([half]) == [1]
        with pytest.raises(SpoolFull, match="is ingest running"):
            spool.append([entry("c", 500)])


def test_the_log_shrinks_after_one_huge_entry(path: Path, entry: EntryOf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepwell.spool._spool._WAL_LEFT", 1 << 20)
    log = path.with_name(f"{path.name}-wal")
    with Spool(path) as spool:
        spool.append([entry("huge", 16 << 20)])
        assert log.stat().st_size > 16 << 20
        spool.append([entry("small")])
        assert log.stat().st_size <= 1 << 20


def test_the_size_counts_what_is_there_also_after_a_restart(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool:
        spool.append([entry("a", 1000), entry("b", 1)])
        spool.trim(1)
        size = spool.bytes
        assert size == entry("b", 1).size
    with Spool(path) as spool:
        assert spool.bytes == size


def test_a_request_is_kept_until_its_answer_may_go_too(path: Path, entry: EntryOf, records: Read) -> None:
    with Spool(path) as spool:
        spool.append([entry("q", opens=True), entry("other"), entry("r", ref="q")])
        assert spool.trim(2) == 1
        assert [r.id for r in records(path)] == ["q", "r"]
        assert spool.trim(3) == 2


def test_a_request_without_an_answer_is_never_dropped(path: Path, entry: EntryOf, records: Read) -> None:
    with Spool(path) as spool:
        spool.append([entry("q", opens=True), entry("other")])
        spool.trim(1_000)
        assert [r.id for r in records(path)] == ["q"]


def test_trimming_goes_in_portions(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool:
        spool.append([entry(str(number)) for number in range(10)])
        assert [spool.trim(9, limit=4) for _ in range(4)] == [4, 4, 1, 0]
        assert spool.bytes == entry("9").size


def test_open_calls_are_closed_as_lost_by_the_next_owner(path: Path, entry: EntryOf, records: Read) -> None:
    with Spool(path) as spool:
        spool.append([entry("q1", opens=True), entry("q2", opens=True), entry("r2", ref="q2"), entry("q3", opens=True)])
    for _ in range(2):  # once only
        with Spool(path):
            found = records(path)
        assert [(r.seq, r.kind, r.ref) for r in found if r.kind == LOST] == [(5, LOST, "q1"), (6, LOST, "q3")]
    with Spool(path) as spool:
        assert spool.append([entry("late", ref="q1")]) == [7]
        assert spool.trim(7) == 7


def test_lost_calls_are_closed_in_a_full_spool_too(path: Path, entry: EntryOf, records: Read) -> None:
    with Spool(path) as spool:
        spool.append([entry("q", opens=True)])
    with Spool(path, max_bytes=10) as spool:
        assert [r.kind for r in records(path)] == ["k", LOST]
        with pytest.raises(SpoolFull):
            spool.append([entry("x")])


def test_losses_are_remembered(path: Path) -> None:
    with Spool(path) as spool:
        spool.add_lost(2)
        spool.add_lost(3)
    with Spool(path), closing(SpoolReader(path)) as reader:
        assert reader.lost() == 5


WRITE_FOREVER = """
spool = Spool(path)
for n in range(10**9):
    numbers = spool.append([Entry(f"{n}.{i}", "k", body=b"y" * 500, opens=i == 0) for i in range(5)])
    print(n, numbers[0], numbers[-1], flush=True)
"""


def test_what_was_acknowledged_survives_kill_9(path: Path, child: Child, records: Read) -> None:
    acknowledged: dict[int, str] = {}
    for run in range(3):
        process = child(WRITE_FOREVER.replace("range(10**9)", f"range({run * 10**6}, 10**9)"), path)
        assert process.stdout is not None
        for _ in range(40):
            n, first, last = map(int, process.stdout.readline().split())
            acknowledged |= {first + i: f"{n}.{i}" for i in range(5)}
            assert last == first + 4
        process.send_signal(signal.SIGKILL)
        for line in process.stdout:  # said before it died
            if len(words := line.split()) == 3 and line.endswith("\n"):
                acknowledged |= {int(words[1]) + i: f"{words[0]}.{i}" for i in range(5)}
        process.wait()
    found = {record.seq: record.id for record in records(path)}
    assert len(acknowledged) >= 600
    assert {seq: found.get(seq) for seq in acknowledged} == acknowledged
    with Spool(path):
        answers = [r.ref for r in records(path) if r.kind == LOST]
    opened = [id for id in found.values() if id.endswith(".0")]
    assert sorted(ref for ref in answers if ref) == sorted(opened)


def test_two_processes_do_not_share_a_spool(path: Path, child: Child) -> None:
    process = child("spool = Spool(path); print('open', flush=True); sys.stdin.read()", path)
    assert process.stdout is not None and process.stdout.readline() == "open\n"
    with pytest.raises(SpoolError, match=r"p\.db is in use by another process"):
        Spool(path)
    process.kill()
    process.wait()
    Spool(path, wait=10).close()


def test_one_may_wait_for_the_previous_owner(path: Path, child: Child) -> None:
    process = child("spool = Spool(path); print('open', flush=True); sys.stdin.readline(); spool.close()", path)
    assert process.stdout is not None and process.stdout.readline() == "open\n"
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()
    Spool(path, wait=60).close()


def test_a_newer_layout_is_refused_and_left_alone(path: Path) -> None:
    Spool(path).close()
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE meta SET value = '2' WHERE key = 'format'")
        db.execute("ALTER TABLE entries RENAME TO records")
    with pytest.raises(SpoolError, match=r"p\.db has layout 2, this version reads up to 1: upgrade"):
        Spool(path)
    with closing(sqlite3.connect(path)) as db:
        tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert "records" in tables and "entries" not in tables
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("UPDATE meta SET value = 'one' WHERE key = 'format'")
    with pytest.raises(SpoolError, match=r"p\.db"):
        Spool(path)


def test_a_damaged_file_is_named_and_the_lock_given_back(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"no database at all" * 1000)
    for _ in range(2):
        with pytest.raises(SpoolError, match=r"p\.db"):
            Spool(path)
    path.unlink()
    Spool(path).close()


def test_damage_inside_is_an_error_of_the_spool(path: Path, entry: EntryOf) -> None:
    with Spool(path) as spool:
        spool.append([entry(str(number), 3000) for number in range(50)])
    raw = bytearray(path.read_bytes())
    raw[16384:] = b"\xa5" * (len(raw) - 16384)  # all but the page with the schema
    path.write_bytes(raw)
    with pytest.raises(SpoolError, match=r"p\.db"):
        Spool(path)


def test_a_folder_that_cannot_be_used_is_an_error_of_the_spool(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="folder"):
        Spool(tmp_path / "file" / "p.db")
    (tmp_path / "p.lock").mkdir()
    with pytest.raises(SpoolError, match=r"p\.lock"):
        Spool(tmp_path / "p.db")


def test_an_error_of_the_disk_is_an_error_of_the_spool(path: Path, entry: EntryOf) -> None:
    spool = Spool(path)
    spool.append([entry("a")])
    spool.close()
    for act in (lambda: spool.append([entry("b")]), lambda: spool.trim(1), lambda: spool.add_lost(1)):
        with pytest.raises(SpoolError, match=r"p\.db"):
            act()


def test_a_disk_without_room_refuses_and_loses_nothing(path: Path, entry: EntryOf, records: Read) -> None:
    with Spool(path) as spool:
        spool.append([entry("a")])
        spool._db.execute("PRAGMA max_page_count = 12")  # SQLite then says: database or disk is full
        with pytest.raises(SpoolError, match="full"):
            spool.append([entry("b"), entry("big", 1 << 20)])
        assert [r.id for r in records(path)] == ["a"]
        spool._db.execute("PRAGMA max_page_count = 100000")
        assert spool.append([entry("b")]) == [2]


def test_the_last_of_the_disk_is_left_free_so_that_trimming_works(
    path: Path, entry: EntryOf, records: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a disk that is really full SQLite cannot drop anything either, and the spool would never recover."""
    free = 10_000_000
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    with Spool(path, reserve=1_000_000) as spool:
        (number,) = spool.append([entry("a", 4_000_000)])
        free = 8_000_000
        with pytest.raises(SpoolFull, match="has 8000000 bytes left"):
            spool.append([entry("b", 4_000_000)])
        assert spool.trim(number) == 1
        assert spool.append([entry("c", 3_500_000)]) == [number + 1], "the room of what was dropped counts"
    assert [record.id for record in records(path)] == ["c"]
