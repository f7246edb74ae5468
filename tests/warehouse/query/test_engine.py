"""Databases are lent to one query at a time, in whatever thread."""

from __future__ import annotations

import pytest

from stepwell.warehouse._query import engine


def test_one_at_a_time_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_idle", [])
    with engine.connection() as first, engine.connection() as second:
        first.execute("CREATE TEMP TABLE mine AS SELECT 1")
        assert second.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
    assert len(engine._idle) == 2
    with engine.connection() as third:
        assert len(engine._idle) == 1
        assert third.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]


def test_the_last_one_may_be_taken_by_another_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    class Emptied(list[object]):
        """What another thread sees that looked a moment too early."""

        def __bool__(self) -> bool:
            return True

    monkeypatch.setattr(engine, "_idle", Emptied())
    with engine.connection() as db:
        assert db.execute("SELECT 1").fetchall() == [(1,)]


def test_those_of_another_process_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_idle", [(-1, None)])
    with engine.connection() as db:
        assert db.execute("SELECT 1").fetchall() == [(1,)]
