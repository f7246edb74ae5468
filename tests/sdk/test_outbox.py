from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stepwell.sdk._disk import Disk
from stepwell.sdk._outbox import MAX_BYTES, MAX_ITEMS, Item, Kind, Outbox


def item(number: int, kind: Kind = "step", size: int = 10) -> Item:
    return Item(kind, str(number), b"x" * size)


def taken(box: Outbox) -> list[str]:
    return [one.id for one in box.take()]


def test_in_order_and_kept_until_settled() -> None:
    box = Outbox(1000)
    for number in range(3):
        assert box.put(item(number))
    assert taken(box) == ["0", "1", "2"]
    box.settle(2)  # the third attempt at "2" is as good as the first
    assert taken(box) == ["2"]
    assert (len(box), box.bytes, box.settled, box.put_count) == (1, 10, 2, 3)


def test_a_batch_is_of_one_kind_so_that_order_is_kept_across_kinds() -> None:
    box = Outbox(1000)
    for number, kind in enumerate(("trajectory", "step", "step", "trajectory")):
        box.put(item(number, kind))  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    batches = []
    while len(box):
        batches.append(taken(box))
        box.settle(len(batches[-1]))
    assert batches == [["0"], ["1", "2"], ["3"]]


def test_batches_are_bounded_in_number_and_bytes_but_never_empty() -> None:
    box = Outbox(100 << 20)
    for number in range(MAX_ITEMS + 1):
        box.put(item(number))
    assert len(taken(box)) == MAX_ITEMS
    assert len(box.take(limit=7)) == 7
    box.settle(MAX_ITEMS + 1)
    box.put(item(0, size=3 * MAX_BYTES))
    box.put(item(1, size=MAX_BYTES // 2))
    box.put(item(2, size=MAX_BYTES // 2))
    assert taken(box) == ["0"]
    box.settle(1)
    assert taken(box) == ["1", "2"]


def test_beyond_the_bound_things_are_dropped_and_counted() -> None:
    box = Outbox(25)
    assert [box.put(item(number)) for number in range(4)] == [True, True, False, False]
    assert (box.dropped, len(box)) == (2, 2)
    box.settle(1)
    assert box.put(item(4))


def test_wait_is_about_what_was_put_before_it() -> None:
    box = Outbox(1000)
    assert box.wait(0) == 0
    box.put(item(0))
    box.put(item(1))
    assert box.wait(0.01) == 2
    box.settle(1)
    assert box.wait(0) == 1
    waiting = threading.Thread(target=lambda: found.append(box.wait(30)))
    found: list[int] = []
    waiting.start()
    box.settle(1)
    waiting.join(30)
    assert found == [0]


def test_a_closed_box_is_emptied_and_takes_nothing_in() -> None:
    box = Outbox(1000)
    box.put(item(0))
    box.close()
    assert not box.put(item(1)) and box.dropped == 1
    assert taken(box) == ["0"]
    box.settle(1)
    assert taken(box) == []


def test_take_waits_for_something() -> None:
    box = Outbox(1000)
    found: list[list[str]] = []
    consumer = threading.Thread(target=lambda: found.append(taken(box)))
    consumer.start()
    box.put(item(0))
    consumer.join(30)
    assert found == [["0"]]


def test_many_producers_lose_nothing() -> None:
    box = Outbox(1 << 20)

    def produce(start: int) -> None:
        for number in range(start, start + 500):
            assert box.put(item(number))

    threads = [threading.Thread(target=produce, args=(start,)) for start in range(0, 4000, 500)]
    for thread in threads:
        thread.start()
    got: list[str] = []
    while len(got) < 4000:
        batch = taken(box)
        got += batch
        box.settle(len(batch))
    for thread in threads:
        thread.join()
    assert sorted(map(int, got)) == list(range(4000))
    for start in range(0, 4000, 500):  # each producer's own order
        own = [number for number in map(int, got) if start <= number < start + 500]
        assert own == sorted(own)


def test_what_is_spilled_goes_first(tmp_path: Path) -> None:
    box = Outbox(1000, Disk.fresh(tmp_path))
    for number in range(3):
        box.put(item(number))
    assert box.spill() and (len(box), box.spooled, box.bytes) == (3, 3, 0)
    box.put(item(3))
    assert taken(box) == ["0", "1", "2"]
    box.settle(2)
    assert box.spill() and taken(box) == ["2", "3"]
    box.settle(2)
    assert (len(box), box.settled, box.wait(0)) == (0, 4, 0)
    box.put(item(4))
    assert taken(box) == ["4"]
    assert box.disk is not None
    box.disk.close()


def test_what_is_spilled_while_it_is_sent_is_settled_on_the_disk(tmp_path: Path) -> None:
    box = Outbox(1000, Disk.fresh(tmp_path))
    for number in range(4):
        box.put(item(number))
    assert len(box.take(2)) == 2
    box.spill()
    box.settle(2)
    assert taken(box) == ["2", "3"] and (box.spooled, box.settled) == (2, 2)
    assert box.disk is not None
    box.disk.close()


def test_a_disk_that_takes_nothing_more_leaves_the_rest_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    box = Outbox(10_000, Disk.fresh(tmp_path, 1000))
    box.put(item(0, size=500))
    assert box.spill()
    box.put(item(1, size=500))
    assert not box.spill() and not box.spill()
    assert box.disk_problem is not None and caplog.text.count("wait in memory only") == 1
    assert taken(box) == ["0"]
    box.settle(1)
    assert taken(box) == ["1"] and box.disk_problem is None
    assert box.spill()
    box.settle(1)
    assert box.disk is not None
    box.disk.close()


def test_pressure_on_memory_is_relieved_by_the_disk(tmp_path: Path) -> None:
    box = Outbox(100_000, Disk.fresh(tmp_path))
    put = [box.put(item(number, size=1000)) for number in range(60)]
    for thread in threading.enumerate():
        if thread.name == "stepwell-sdk-spool":
            thread.join(30)
    assert all(put) and box.spooled >= 51 and box.bytes < 10_000
    got: list[str] = []
    while len(box):
        got += (batch := taken(box))
        box.settle(len(batch))
    assert got == [str(number) for number in range(60)]
    assert box.disk is not None
    box.disk.close()


def test_spilling_and_sending_at_once_keep_the_order(tmp_path: Path) -> None:
    box, got, stop = Outbox(1 << 20, Disk.fresh(tmp_path)), list[str](), threading.Event()

    def spill() -> None:
        while not stop.wait(0.002):
            box.spill()

    spilling = threading.Thread(target=spill)
    spilling.start()

    def produce() -> None:
        for number in range(600):
            box.put(item(number))

    producer = threading.Thread(target=produce)
    producer.start()
    while len(got) < 600:
        batch = taken(box)
        got += batch
        box.settle(len(batch))
    producer.join()
    stop.set()
    spilling.join()
    assert got == [str(number) for number in range(600)] and box.settled == 600 and not len(box)
    assert box.disk is not None
    box.disk.close()
