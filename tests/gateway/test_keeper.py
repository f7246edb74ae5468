from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepwell.errors import SpoolError, SpoolFull
from stepwell.gateway import _keeper
from stepwell.gateway._keeper import Keeper
from stepwell.spool import Entry, Spool, SpoolWriter


def entries(*ids: str) -> list[Entry]:
    return [Entry(id, "step", body=b"{}") for id in ids]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[SpoolWriter]:
    writer = SpoolWriter(Spool(tmp_path / "gateway.db", max_bytes=10_000))
    yield writer
    writer.close()


async def test_new_and_known(writer: SpoolWriter, tmp_path: Path) -> None:
    keeper = Keeper(writer, tmp_path)
    assert await keeper.keep(entries("a", "b", "a")) == [True, True, False]
    assert await keeper.keep(entries("b", "c")) == [False, True]
    assert await keeper.keep(entries("a")) == [False]
    assert keeper.marks() == {writer.spool.producer: 3}  # a barrier waits for this number: a record must have it


async def test_what_an_earlier_process_kept_is_known(tmp_path: Path) -> None:
    with Spool(tmp_path / "gateway.db") as spool:
        spool.append(entries("a", "b"))
        spool.trim(1)
    writer = SpoolWriter(Spool(tmp_path / "gateway.db"))
    try:
        assert await Keeper(writer, tmp_path).keep(entries("b", "c")) == [False, True]
    finally:
        writer.close()


async def test_many_at_once(writer: SpoolWriter, tmp_path: Path) -> None:
    keeper = Keeper(writer, tmp_path)
    first = await asyncio.gather(*(keeper.keep(entries(str(number))) for number in range(40)))
    again = await asyncio.gather(*(keeper.keep(entries(str(number))) for number in range(40)))
    assert first == [[True]] * 40 and again == [[False]] * 40


async def test_a_full_spool_raises(writer: SpoolWriter, tmp_path: Path) -> None:
    keeper = Keeper(writer, tmp_path)
    with pytest.raises(SpoolFull):
        await keeper.keep([Entry("a", "step", body=b"x" * 20_000)])
    assert await keeper.keep(entries("a")) == [True]


async def test_a_cancelled_request_leaves_the_writer_well(writer: SpoolWriter, tmp_path: Path) -> None:
    keeper = Keeper(writer, tmp_path)
    task = asyncio.create_task(keeper.keep(entries("a")))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await keeper.keep(entries("b")) == [True]
    writer.flush(10)


async def test_a_disk_that_hangs_is_an_error_in_time(
    writer: SpoolWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    keeper, free = Keeper(writer, tmp_path), threading.Event()
    insert = writer.spool.append
    monkeypatch.setattr(_keeper, "_PATIENCE", 0.05)
    monkeypatch.setattr(writer.spool, "append", lambda batch: (free.wait(10), insert(batch))[1])
    with pytest.raises(SpoolError, match="within"):
        await keeper.keep(entries("a"))
    free.set()
    monkeypatch.setattr(_keeper, "_PATIENCE", 10)
    assert await keeper.keep(entries("b")) == [True]
