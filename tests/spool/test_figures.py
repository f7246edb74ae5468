"""Figures about spools, and their text."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stepwell.errors import SpoolError
from stepwell.spool import Entry, Figure, Spool, exposition, spool_figures, write_cursor

EntryOf = Callable[..., Entry]


def parsed(figures: list[Figure]) -> dict[tuple[str, ...], float]:
    text = exposition(figures).decode()
    families = text_string_to_metric_families(text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


def of(found: dict[tuple[str, ...], float], name: str, *labels: str) -> float:
    return found[(f"stepwell_spool_{name}", *labels)]


def test_what_waits_and_what_is_done(tmp_path: Path, entry: EntryOf) -> None:
    with Spool(tmp_path / "a.db") as living:
        living.append([entry("1"), entry("2"), entry("3")])
        with Spool(tmp_path / "b.db") as dead:
            dead.append([entry("1")])
            dead.add_lost(4)
        write_cursor(tmp_path, {living.producer: 1, dead.producer: 1})
        found = parsed(spool_figures(tmp_path))
    a, b = living.producer, dead.producer
    assert [of(found, name, a) for name in ("last_number", "committed_number", "lag_records", "alive")] == [3, 1, 2, 1]
    assert [of(found, name, b) for name in ("last_number", "committed_number", "lag_records", "alive")] == [1, 1, 0, 0]
    assert (of(found, "lost_total", a), of(found, "lost_total", b)) == (0, 4)
    assert 0 <= of(found, "oldest_age_seconds", a) < 600 and of(found, "oldest_age_seconds", b) == 0
    assert of(found, "unreadable") == 0


def test_the_age_is_that_of_the_oldest_that_is_not_committed(tmp_path: Path, entry: EntryOf) -> None:
    with Spool(tmp_path / "a.db") as spool:
        spool.append([entry("1"), entry("2")])
        with closing(sqlite3.connect(spool.path)) as db:
            db.execute("UPDATE entries SET at_ns = at_ns - 7200 * 1000000000 WHERE seq = 1")
            db.execute("UPDATE entries SET at_ns = at_ns - 3600 * 1000000000 WHERE seq = 2")
            db.commit()
        ages = []
        for mark in (0, 1, 2):
            write_cursor(tmp_path, {spool.producer: mark})
            ages.append(of(parsed(spool_figures(tmp_path)), "oldest_age_seconds", spool.producer))
    assert 7200 <= ages[0] < 7800 and 3600 <= ages[1] < 4200 and ages[2] == 0


def test_a_broken_one_is_counted(tmp_path: Path, entry: EntryOf) -> None:
    (tmp_path / "a.db").write_bytes(b"broken" * 1000)
    with Spool(tmp_path / "b.db") as spool:
        spool.append([entry("1")])
        found = parsed(spool_figures(tmp_path))
        assert of(found, "unreadable") == 1 and of(found, "last_number", spool.producer) == 1
        alone = parsed(spool_figures(tmp_path, only=spool.path))
        assert of(alone, "last_number", spool.producer) == 1 and of(alone, "unreadable") == 0
    with pytest.raises(SpoolError, match="not a readable spool"):
        spool_figures(tmp_path, only=tmp_path / "a.db")


def test_labels_are_quoted() -> None:
    odd = 'a "quoted" \\ name\nof two lines'
    assert parsed([Figure("x_total", "Of x.", "counter").add(2, producer=odd)]) == {("x_total", odd): 2}
