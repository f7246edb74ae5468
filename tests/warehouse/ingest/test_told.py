"""What producers may drop: told when it is news, not all the time where that takes long, and again when it could not be said."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from stepwell.spool import read_cursor, write_cursor
from stepwell.warehouse._ingest.told import Told
from stepwell.warehouse._store.durable import Durable


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of the processor at each look at the files: every one takes as long as the first number says."""
    takes, clock = [0.0], [0.0]

    def settle(_: object) -> None:
        clock[0] += takes[0]
        takes.append(clock[0])

    monkeypatch.setattr(Durable, "settle", settle)
    monkeypatch.setattr(time, "thread_time", lambda: clock[0])
    return takes


def test_only_what_is_news(tmp_path: Path, settled: list[float]) -> None:
    telling = Told(tmp_path, str(tmp_path))
    telling.tell({})
    assert len(settled) == 1
    for marks in ({"p": 3}, {"p": 3}, {"p": 4}):
        telling.tell(marks)
    assert len(settled) == 3 and telling.marks == {"p": 4} and read_cursor(tmp_path, "p") == 4


def test_seldom_where_it_takes_long(tmp_path: Path, settled: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    telling, settled[0] = Told(tmp_path, str(tmp_path)), 0.1
    telling.tell({"p": 1})
    now[0] += 1.9
    telling.tell({"p": 2})
    assert read_cursor(tmp_path, "p") == 1
    now[0] += 0.2
    telling.tell({"p": 2})
    assert read_cursor(tmp_path, "p") == 2
    telling.tell({"p": 3}, at_once=True)
    assert read_cursor(tmp_path, "p") == 3


def test_what_could_not_be_said_is_said_later(
    tmp_path: Path, settled: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])

    def full(*_: object) -> None:
        raise OSError("no space left")

    telling = Told(tmp_path, str(tmp_path))
    monkeypatch.setattr("stepwell.warehouse._ingest.told.write_cursor", full)
    telling.tell({"p": 1})
    assert telling.marks == {}
    monkeypatch.setattr("stepwell.warehouse._ingest.told.write_cursor", write_cursor)
    telling.tell({"p": 1})
    assert len(settled) == 2, "not at every turn"
    now[0] += 6
    telling.tell({"p": 1})
    assert telling.marks == {"p": 1} and read_cursor(tmp_path, "p") == 1
