"""The thread between an event loop and the disk."""

from __future__ import annotations

import asyncio
import gc
import logging
import queue
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import SpoolError, SpoolFull
from stepwell.spool import Entry, Job, Record, Spool, SpoolReader, SpoolWriter

EntryOf = Callable[..., Entry]
Read = Callable[[Path], list[Record]]


class Gate(Spool):
    """A real spool whose disk can be made to hang, to break, or to be counted."""

    def __init__(self, path: Path, **options: Any) -> None:
        super().__init__(path, **options)
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Event()
        self.broken: Exception | None = None
        self.batches: list[list[str]] = []

    def append(self, entries: Sequence[Entry]) -> list[int]:
        self.entered.set()
        assert self.open.wait(60)
        self.batches.append([entry.id for entry in entries])
        if self.broken is not None:
            raise self.broken
        return super().append(entries)

    def hang(self) -> None:
        self.entered.clear()
        self.open.clear()


Make = Callable[..., SpoolWriter]


@pytest.fixture
def make(path: Path) -> Iterator[Make]:
    """A writer on a `Gate`: `make(max_bytes=…, max_pending=…)`."""
    writers: list[SpoolWriter] = []

    def start(max_bytes: int = 1 << 30, **options: Any) -> SpoolWriter:
        writers.append(SpoolWriter(Gate(path, max_bytes=max_bytes), **options))
        return writers[-1]

    yield start
    for writer in writers:
        gate(writer).open.set()
        writer.close()


def gate(writer: SpoolWriter) -> Gate:
    assert isinstance(writer.spool, Gate)
    return writer.spool


def test_a_future_ends_when_its_entries_are_on_the_disk(make: Make, entry: EntryOf, path: Path, records: Read) -> None:
    writer = make()
    gate(writer).hang()
    done = writer.submit(entry("a"), entry("b"))
    assert gate(writer).entered.wait(60)
    assert not done.done() and records(path) == []
    gate(writer).open.set()
    assert done.result(60) == [1, 2]
    assert [r.id for r in records(path)] == ["a", "b"]


def test_many_submissions_are_one_transaction_in_order(make: Make, entry: EntryOf) -> None:
    writer = make()
    gate(writer).hang()
    first = writer.submit(entry("0"))
    assert gate(writer).entered.wait(60)
    futures = [writer.submit(entry(f"{number}"), entry(f"{number}+")) for number in range(1, 50)]
    gate(writer).open.set()
    assert first.result(60) == [1]
    assert [future.result(60) for future in futures] == [[2 * n, 2 * n + 1] for n in range(1, 50)]
    assert [len(batch) for batch in gate(writer).batches] == [1, 98]


def test_a_transaction_is_bounded(make: Make, entry: EntryOf) -> None:
    writer = make()
    gate(writer).hang()
    futures = [writer.submit(entry(f"{number}")) for number in range(1000)]
    gate(writer).open.set()
    assert [future.result(60) for future in futures] == [[number] for number in range(1, 1001)]
    assert max(len(batch) for batch in gate(writer).batches) == 256


def unexpected(error: SpoolError) -> None:
    pytest.fail(f"refused: {error}")


def test_lingering_gathers_what_trickles(make: Make, entry: EntryOf, path: Path, records: Read) -> None:
    writer = make(linger=60.0)  # longer than the test waits for anything
    for number in range(20):
        writer.post(entry(f"{number}"), unexpected)
    assert not gate(writer).entered.wait(0.05)
    assert writer.submit(entry("20")).result(30) == [21]  # someone waits: nobody lingers
    assert [r.id for r in records(path)] == [f"{number}" for number in range(21)]
    assert len(gate(writer).batches) == 1
    writer.post(entry("21"), unexpected)
    writer.close()
    assert [len(batch) for batch in gate(writer).batches] == [21, 1]


def test_an_answer_whose_request_was_refused_is_dropped_without_a_word(
    make: Make, entry: EntryOf, path: Path, records: Read
) -> None:
    writer = make(max_bytes=10 * entry("").size, linger=60.0)
    told: list[str] = []
    late = writer.post(entry("big", 100_000), lambda error: told.append("big"))
    writer.post(entry("its answer"), lambda error: told.append("its answer"), after=late)  # in the same transaction
    kept = writer.post(entry("a"), lambda error: told.append("a"))
    writer.post(entry("answer"), lambda error: told.append("answer"), after=kept)
    writer.flush(30)
    assert told == ["big"] and late.failed and not kept.failed
    writer.post(entry("its second"), lambda error: told.append("its second"), after=late)  # known to be refused
    writer.post(entry("second"), lambda error: told.append("second"), after=kept)
    writer.post(entry("huge", 100_000), lambda error: told.append("huge"))
    writer.flush(30)
    assert told == ["big", "huge"]
    assert writer.pending == 0
    assert [r.id for r in records(path)] == ["a", "answer", "second"]


def test_a_bug_is_told_once_for_a_call(make: Make, entry: EntryOf) -> None:
    writer = make(linger=60.0)
    gate(writer).broken = RuntimeError("a bug")
    told: list[str] = []
    request = writer.post(entry("a"), lambda error: told.append(str(error)))
    writer.post(entry("b"), lambda error: told.append(str(error)), after=request)
    with pytest.raises(SpoolError, match="a bug"):
        writer.flush(30)
    assert len(told) == 1 and "a bug" in told[0]


def test_what_is_refused_at_once_is_told_at_once(make: Make, entry: EntryOf) -> None:
    writer = make(max_pending=10)
    told: list[SpoolError] = []
    request = writer.post(entry("a", 100), told.append)
    assert request.failed and len(told) == 1 and isinstance(told[0], SpoolFull)


def test_an_ended_job_holds_nothing(make: Make, entry: EntryOf) -> None:
    """Or each call of a proxy would be a ring that only the garbage collector can take apart."""

    class Call:
        job: Job | None = None

        def refused(self, error: SpoolError) -> None:
            raise AssertionError from error

    writer = make()
    call = Call()
    call.job = writer.post(entry("a"), call.refused)
    writer.flush(30)
    gone = weakref.ref(call)
    gc.disable()
    try:
        del call
        assert gone() is None
    finally:
        gc.enable()


def test_what_waits_in_memory_is_bounded(make: Make, entry: EntryOf, path: Path, records: Read) -> None:
    size = entry("a", 100).size
    writer = make(max_pending=2 * size)
    gate(writer).hang()
    kept = [writer.submit(entry("a", 100)), writer.submit(entry("b", 100))]
    assert writer.pending == 2 * size
    refused = writer.submit(entry("c", 100))
    with pytest.raises(SpoolFull, match="disk does not keep up"):
        refused.result(0)  # refused at once, not when the disk is back
    gate(writer).open.set()
    assert [future.result(60) for future in kept] == [[1], [2]]
    assert writer.pending == 0
    assert writer.submit(entry("c", 100)).result(60) == [3]
    assert [r.id for r in records(path)] == ["a", "b", "c"]


def test_the_room_is_there_when_the_future_ends(make: Make, entry: EntryOf) -> None:
    """Whoever waits for each before it sends the next is never refused."""
    writer = make(max_pending=entry("a", 100).size)
    refused: list[BaseException] = []

    def follow(done: Future[list[int]]) -> None:
        next_one = writer.submit(entry("b", 100))
        if next_one.done() and (error := next_one.exception()):
            refused.append(error)

    gate(writer).hang()
    first = writer.submit(entry("a", 100))
    first.add_done_callback(follow)  # runs in the writer's thread, the moment the future ends
    gate(writer).open.set()
    first.result(60)
    writer.flush(60)
    assert refused == []


def test_one_that_is_refused_does_not_take_its_neighbours_along(
    make: Make, entry: EntryOf, path: Path, records: Read
) -> None:
    writer = make(max_bytes=10 * entry("").size)
    gate(writer).hang()
    small = [writer.submit(entry("a")), writer.submit(entry("b"))]
    big = writer.submit(entry("big", 100_000))
    broken = writer.submit(entry("half a pair \ud800"), entry("with it"))
    after = writer.submit(entry("c"))
    gate(writer).open.set()
    assert [future.result(60) for future in small] == [[1], [2]]
    with pytest.raises(SpoolFull):
        big.result(60)
    with pytest.raises(SpoolError, match="cannot write"):
        broken.result(60)
    assert after.result(60) == [3]
    assert writer.pending == 0
    assert [r.id for r in records(path)] == ["a", "b", "c"]


def test_an_error_of_the_disk_reaches_everyone_who_waits_and_passes(make: Make, entry: EntryOf) -> None:
    writer = make()
    gate(writer).broken = SpoolError("cannot write to the spool: disk I/O error")
    futures = [writer.submit(entry(f"{number}")) for number in range(10)]
    for future in futures:
        with pytest.raises(SpoolError, match="I/O"):
            future.result(60)
    gate(writer).broken = None
    assert writer.submit(entry("a")).result(60) == [1]


def test_no_surprise_ends_the_thread(make: Make, entry: EntryOf, caplog: pytest.LogCaptureFixture) -> None:
    """A dead thread would leave every future of the process open forever."""
    writer = make()
    gate(writer).broken = RuntimeError("a bug")
    with pytest.raises(SpoolError, match="a bug"):
        writer.submit(entry("a")).result(60)
    assert "a bug" in caplog.text
    gate(writer).broken = None
    assert writer.submit(entry("a")).result(60) == [1]


def test_real_sqlite_errors_surface(path: Path, entry: EntryOf) -> None:
    with closing(SpoolWriter(Spool(path))) as writer:
        writer.submit(entry("a")).result(60)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("CREATE TRIGGER no BEFORE INSERT ON entries BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END")
        with pytest.raises(SpoolError, match="disk I/O error"):
            writer.submit(entry("b")).result(60)
        with closing(sqlite3.connect(path)) as db, db:
            db.execute("DROP TRIGGER no")
        assert writer.submit(entry("b")).result(60) == [2]


async def test_an_event_loop_that_stops_waiting_harms_nobody(
    make: Make, entry: EntryOf, path: Path, records: Read
) -> None:
    """A client hangs up while its submission is written: its task is cancelled, and asyncio cancels the future it wraps."""
    writer = make()
    gate(writer).hang()
    done = writer.submit(entry("a"))
    waiting = asyncio.ensure_future(asyncio.wrap_future(done))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate(writer).open.set()
    assert await asyncio.wrap_future(writer.submit(entry("b"))) == [2]
    assert done.result(60) == [1] and not done.cancelled()
    assert [r.id for r in records(path)] == ["a", "b"]


def test_flush_waits_for_all_before_it(make: Make, entry: EntryOf) -> None:
    writer = make()
    gate(writer).hang()
    futures = [writer.submit(entry(f"{number}")) for number in range(600)]
    with pytest.raises(TimeoutError):
        writer.flush(0.01)
    gate(writer).open.set()
    writer.flush(60)
    assert all(future.done() for future in futures)


def test_flush_passes_also_when_everything_is_refused(make: Make, entry: EntryOf) -> None:
    writer = make(max_bytes=0)
    refused = writer.submit(entry("a"))
    writer.flush(60)
    with pytest.raises(SpoolFull):
        refused.result(0)


def test_close_writes_what_is_queued_and_refuses_what_comes_later(
    make: Make, entry: EntryOf, path: Path, records: Read
) -> None:
    writer = make()
    gate(writer).hang()
    futures = [writer.submit(entry(f"{number}")) for number in range(700)]
    gate(writer).open.set()
    writer.close()
    assert [future.result(0) for future in futures] == [[number] for number in range(1, 701)]
    with pytest.raises(SpoolError, match="closed"):
        writer.submit(entry("late")).result(0)
    with pytest.raises(SpoolError, match="closed"):
        writer.flush(0)
    writer.close()
    assert len(records(path)) == 700
    Spool(path).close()  # and the lock is given back


def test_losses_are_counted_and_remembered(make: Make, path: Path) -> None:
    writer = make()
    writer.count_loss()
    writer.count_loss(4)
    writer.close()
    assert writer.lost == 5
    with SpoolReader(path) as reader:
        assert reader.lost() == 5
    again = make()
    again.count_loss(2)
    again.flush(60)
    again.close()
    assert again.lost == 2  # of this process; the spool remembers all
    with SpoolReader(path) as reader:
        assert reader.lost() == 7


def test_a_loss_that_cannot_be_written_is_written_later(
    make: Make, path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    writer = make()
    tried = threading.Event()

    def fail(count: int) -> None:
        tried.set()
        raise SpoolError("no room")

    monkeypatch.setattr(writer.spool, "add_lost", fail)
    writer.count_loss(3)
    writer.flush(60)
    assert tried.wait(60)
    monkeypatch.undo()
    writer.close()
    with SpoolReader(path) as reader:
        assert reader.lost() == 3
    assert "no room" in caplog.text


def test_what_the_cursor_passed_is_dropped_however_much_it_is(
    make: Make, entry: EntryOf, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several portions at once: with one per period, a fast producer's spool would grow for ever."""
    monkeypatch.setattr("stepwell.spool._writer._TRIM_EVERY", 3600.0)
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()

    def cursor(producer: str) -> int:
        asked.put(producer)
        return 8999

    writer = make(cursor=cursor)
    writer.submit(*(entry(str(number)) for number in range(9000))).result(60)
    assert {asked.get(timeout=30) for _ in range(5)} == {writer.spool.producer}  # 2000 each, then 999
    writer.close()
    with SpoolReader(path) as reader:
        assert [record.seq for record in reader.read(0)] == [9000]
        assert reader.last() == 9000


def test_a_cursor_that_fails_costs_nothing_but_room(
    make: Make, entry: EntryOf, path: Path, records: Read, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    asked = threading.Event()

    def cursor(producer: str) -> int:
        asked.set()
        raise ValueError("a broken cursor")

    writer = make(cursor=cursor)
    assert writer.submit(entry("a")).result(60) == [1]
    assert asked.wait(60)
    assert writer.submit(entry("b")).result(60) == [2]
    writer.close()
    assert "a broken cursor" in caplog.text
    assert len(records(path)) == 2


def test_housekeeping_that_keeps_failing_is_said_now_and_then(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stepwell.spool._writer._TRIM_EVERY", 0.0)  # with every round
    asked: queue.SimpleQueue[str] = queue.SimpleQueue()

    def cursor(producer: str) -> int:
        asked.put(producer)
        raise ValueError("a broken cursor")

    writer = make(cursor=cursor)
    for _ in range(5):
        asked.get(timeout=60)
    writer.close()
    assert caplog.text.count("a broken cursor") == 1


def test_many_threads_submit_at_once(make: Make, entry: EntryOf, path: Path, records: Read) -> None:
    writer = make()
    numbers: dict[str, int] = {}

    def submit(name: str) -> None:
        for number in range(200):
            id = f"{name}.{number}"
            (numbers[id],) = writer.submit(entry(id)).result(60)

    threads = [threading.Thread(target=submit, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = records(path)
    assert {record.id: record.seq for record in found} == numbers
    for name in "abcd":
        assert [r.id for r in found if r.id.startswith(name)] == [f"{name}.{number}" for number in range(200)]
