"""A round dies before or after any of its commits: nothing is lost, nothing is there twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import CommitConflict, StoreError
from stepwell.spool import Entry
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse import _ingest as ingest_module
from stepwell.warehouse._ledger import LedgerTable

TABLES = ["exchanges", "steps", "events", "commits"]


class Died(BaseException):
    """The process is gone: nobody catches this."""


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@pytest.fixture
def break_commit(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """The next commit of a table raises `error` before it does anything, or after it landed."""
    real = LedgerTable.commit

    def arm(name: str, when: str, error: BaseException) -> None:
        armed = [True]

        def commit(self: LedgerTable, rows: Any, marks: Any) -> None:
            hit = bool(armed) and self.spec.name == name
            if hit:
                armed.pop()
            if hit and when == "before":
                raise error
            real(self, rows, marks)
            if hit:
                raise error

        monkeypatch.setattr(LedgerTable, "commit", commit)

    return arm


class Work:
    """Agents that leave something for every table in each round, and what must come of it."""

    def __init__(self, feed: Any, other: Any) -> None:
        self.feed, self.other = feed, other
        self.steps: list[str] = []
        self.events = 0
        self.bad = 0
        self.talk = [user("q")]

    def round(self, number: int) -> None:
        self.feed.trajectory("t", group_id="g", prompt_id=f"p{number}")
        self.steps.append(self.feed.exchange(self.talk, f"a{number}", "t"))
        self.talk = [*self.talk, said(f"a{number}"), user(f"r{number}")]
        self.steps.append(self.other.exchange([user(f"alone {number}")], "b"))
        self.steps.append(self.other.step(step_id=f"own{number}", trajectory_id="u", reward=1.0))
        self.feed.feedback(trajectory_id="t", reward=number, name=f"n{number}")
        self.feed.put(Entry(f"bad{number}", "weird", body=b"?"))
        self.events += 3
        self.bad += 1

    def check(self, warehouse: Warehouse) -> None:
        """Against the tables themselves: views would hide what is not committed, and joins what is double."""
        warehouse.refresh()
        found = {
            name: warehouse.tables[name].dataset.to_table(columns=[key], filter="ledger IS NULL")[key].to_pylist()
            for name, key in (("steps", "step_id"), ("events", "event_id"), ("exchanges", "exchange_id"))
        }
        assert Counter(found["steps"]) == Counter(self.steps)
        assert len(found["events"]) == len(set(found["events"])) == self.events
        assert len(found["exchanges"]) == len(set(found["exchanges"])) == self.bad
        seen = warehouse.query("SELECT step_id, parent_id, group_id FROM steps WHERE trajectory_id = 't' ORDER BY turn")
        chain = [row["step_id"] for row in seen.to_pylist()]
        assert [row["parent_id"] for row in seen.to_pylist()] == [None, *chain[:-1]]
        assert set(seen["group_id"].to_pylist()) == {"g"}
        assert warehouse.query("SELECT * FROM steps").num_rows == len(self.steps)
        assert warehouse.steps(columns=["messages"])["messages"].null_count == 0, (
            "every base is there, and not the step itself"
        )
        assert warehouse.query("SELECT * FROM events").num_rows == self.events
        assert warehouse.query("SELECT * FROM quarantine").num_rows == self.bad
        assert warehouse.marks() == {feed.producer: _last(feed) for feed in (self.feed, self.other)}


def _last(feed: Any) -> int:
    from stepwell.spool import SpoolReader

    with SpoolReader(feed.spool.path) as reader:
        return reader.last()


@pytest.fixture
def work(new_feed: Any) -> Work:
    return Work(new_feed("a"), new_feed("b"))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("first", [True, False], ids=["in the first round", "in a later round"])
def test_a_crash_at_any_commit(
    work: Work, local: Any, spools: Path, drained: Any, break_commit: Any, table: str, when: str, first: bool
) -> None:
    worker = Ingest(local.open(), spools)
    if not first:
        work.round(0)
        drained(worker)
    work.round(1)
    break_commit(table, when, Died())
    with pytest.raises(Died):
        worker.run_once()
    work.round(2)
    drained(Ingest(local.open(), spools))
    work.check(local.open())


@pytest.mark.parametrize("table", ["steps", "commits"])
def test_a_crash_on_an_object_store(
    work: Work, s3: Any, spools: Path, drained: Any, break_commit: Any, table: str
) -> None:
    work.round(1)
    break_commit(table, "after", Died())
    with pytest.raises(Died):
        Ingest(s3.open(), spools).run_once()
    work.round(2)
    drained(Ingest(s3.open(create=False), spools))
    work.check(s3.open(create=False))


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("table", TABLES)
def test_a_failure_whose_outcome_is_unknown(
    work: Work, local: Any, spools: Path, drained: Any, break_commit: Any, table: str, when: str
) -> None:
    """The same process goes on, with what it remembers."""
    worker = Ingest(local.open(), spools)
    work.round(0)
    drained(worker)
    work.round(1)
    break_commit(table, when, StoreError("Commit result for version 7 is unknown"))
    with pytest.raises(StoreError, match="unknown"):
        worker.run_once()
    work.round(2)
    drained(worker)
    work.check(local.open())


def test_a_half_done_round_is_not_visible(work: Work, local: Any, spools: Path, break_commit: Any) -> None:
    work.round(1)
    break_commit("commits", "before", Died())
    with pytest.raises(Died):
        Ingest(local.open(), spools).run_once()
    reader = local.open()
    assert reader.tables["steps"].dataset.count_rows() > 1
    for view in ("steps", "events", "quarantine", "trajectories"):
        assert reader.query(f"SELECT * FROM {view}").num_rows == 0
    assert reader.marks() == {}
    assert reader.wait_for({work.feed.producer: 1}, 0) == {work.feed.producer: 1}


def test_crash_after_crash(work: Work, local: Any, spools: Path, drained: Any, break_commit: Any) -> None:
    """Each new ingest gets one table further before it dies."""
    for number, table in enumerate(TABLES):
        work.round(number)
        break_commit(table, "after", Died())
        with pytest.raises(Died):
            Ingest(local.open(), spools).run_once()
    drained(Ingest(local.open(), spools))
    work.check(local.open())


def test_smaller_rounds_after_a_crash(
    work: Work, local: Any, spools: Path, drained: Any, break_commit: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The round that is done again may read less than what the dead one had committed already."""
    for number in range(4):
        work.round(number)
    break_commit("steps", "after", Died())
    with pytest.raises(Died):
        Ingest(local.open(), spools).run_once()
    work.round(4)
    monkeypatch.setattr(ingest_module, "ROUND_RECORDS", 3)
    drained(Ingest(local.open(), spools))
    work.check(local.open())


def test_a_paused_ingest_that_resumes_conflicts(
    work: Work, local: Any, spools: Path, drained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fail-over: while one is stopped in the middle of its round, another does the work."""
    real = LedgerTable.commit
    paused = [True]

    def commit(self: LedgerTable, rows: Any, marks: Any) -> None:
        if paused and self.spec.name == "steps":
            paused.pop()
            drained(Ingest(local.open(), spools))
        real(self, rows, marks)

    monkeypatch.setattr(LedgerTable, "commit", commit)
    worker = Ingest(local.open(), spools)
    work.round(1)
    with pytest.raises(CommitConflict):
        worker.run_once()
    work.round(2)
    drained(worker)
    work.check(local.open())


def test_compaction_by_another_in_the_middle_of_a_round(
    work: Work, local: Any, spools: Path, drained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Ingest(local.open(), spools)
    for number in range(3):
        work.round(number)
        drained(worker)
    real = LedgerTable.commit
    pending = [True]

    def commit(self: LedgerTable, rows: Any, marks: Any) -> None:
        if pending and self.spec.name == "steps":
            pending.pop()
            local.open().maintain()
        real(self, rows, marks)

    monkeypatch.setattr(LedgerTable, "commit", commit)
    work.round(3)
    with pytest.raises(CommitConflict):
        worker.run_once()
    drained(worker)
    work.check(local.open())
