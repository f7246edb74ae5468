from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from stepwell.gateway import _memory
from stepwell.gateway._memory import Answer, Memory, hashed

DAY = 24 * 3600.0


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def test_ids_are_known_for_a_day_and_across_a_restart(tmp_path: Path) -> None:
    clock, a, b = Clock(), hashed("a"), hashed("b")
    memory = Memory(tmp_path / "m", clock=clock)
    memory.note([a])
    assert memory.known([a, b]) == {a}
    memory.close()
    memory = Memory(tmp_path / "m", clock=clock)
    clock.now += DAY - 1
    assert memory.known([a, b]) == {a}
    clock.now += 2
    assert memory.known([a, b]) == set()
    memory.note([a])  # and again from now on
    assert memory.known([a]) == {a}
    memory.close()


def test_more_keys_than_a_statement_takes() -> None:
    memory, keys = Memory(), [hashed(str(number)) for number in range(1200)]
    memory.note(keys[::2])
    assert memory.known(keys) == set(keys[::2])
    memory.close()


def test_parts_are_told_apart() -> None:
    assert len({hashed("ab", "c"), hashed("a", "bc"), hashed("abc"), hashed("abc", ""), hashed("\ud800")}) == 5
    assert hashed("a", b"b") == hashed(b"a", "b") and len(hashed("a")) == 16


def test_answers_are_kept_for_a_day(tmp_path: Path) -> None:
    clock, answer = Clock(), Answer(b"hash", 200, "application/json", b'{"items":[]}' * 100)
    memory = Memory(tmp_path / "m", clock=clock)
    memory.keep(b"k", answer)
    memory.close()
    memory = Memory(tmp_path / "m", clock=clock)
    assert memory.answer(b"k") == answer and memory.answer(b"l") is None
    clock.now += DAY + 1
    assert memory.answer(b"k") is None
    memory.close()


def test_it_is_bounded_and_what_is_old_is_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_memory, "_SWEEP_EVERY", 0.0)
    monkeypatch.setattr(_memory, "MAX_IDS", 10)
    monkeypatch.setattr(_memory, "MAX_ANSWER_BYTES", 1000)
    monkeypatch.setattr(_memory, "_SWEPT", 4)
    clock = Clock()
    memory, path = Memory(tmp_path / "m", clock=clock), tmp_path / "m"
    for number in range(40):
        memory.note([hashed(str(number))])
        memory.keep(hashed(str(number)), Answer(b"", 200, "", hashed(str(number)) * 10))
    with sqlite3.connect(path) as db:
        (ids,) = db.execute("SELECT count(*) FROM ids").fetchone()
        (size,) = db.execute("SELECT sum(length(body)) FROM answers").fetchone()
    assert ids <= 10 and size <= 1000
    assert memory.known([hashed("39")]) and memory.answer(hashed("39"))  # the newest stay
    clock.now += DAY + 1
    for _ in range(5):
        memory.note([hashed("new")])
    assert sqlite3.connect(path).execute("SELECT count(*) FROM ids").fetchone() == (1,)
    memory.close()


def test_a_damaged_file_is_made_anew(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "m"
    path.write_bytes(b"this is no database" * 100)
    memory = Memory(path)
    memory.note([b"k"])
    assert (memory.known([b"k"]) == {b"k"} and "made anew" in caplog.text) or "cannot be used" in caplog.text
    memory.close()
    again = Memory(path)
    assert again.known([b"k"]) == {b"k"}
    again.close()


def test_where_there_is_no_disk_it_lasts_as_long_as_the_process(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "missing" / "m")
    memory.note([b"k"])
    assert memory.known([b"k"]) == {b"k"}
    memory.close()


def test_a_failing_disk_costs_no_submission(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    memory = Memory(tmp_path / "m")
    memory.close()
    memory.note([b"k"])
    memory.keep(b"k", Answer(b"", 200, "", b""))
    assert memory.known([b"k"]) == set() and memory.answer(b"k") is None
    assert "cannot be used" in caplog.text
