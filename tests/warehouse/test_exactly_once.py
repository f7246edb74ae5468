"""A round dies before or after any of its commits: nothing is lost, nothing is there twice."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from stepwell.errors import CommitConflict, StoreError
from stepwell.sdk.records import Step
from stepwell.spool import Entry, Spool
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._ingest import ingest as ingest_module
from stepwell.warehouse._ingest import intake as intake_module
from stepwell.warehouse._ingest.round import Rounds
from stepwell.warehouse._store.flush import Inbox
from stepwell.warehouse._tables.ledger import LedgerTable

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

        def commit(self: LedgerTable, *args: Any) -> None:
            hit = bool(armed) and self.spec.name == name
            if hit:
                armed.pop()
            if hit and when == "before":
                raise error
            real(self, *args)
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
        assert warehouse.steps(columns=["messages"]).read_all()["messages"].null_count == 0, (
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
    monkeypatch.setattr(intake_module, "MAX_RECORDS", 3)
    drained(Ingest(local.open(), spools))
    work.check(local.open())


def test_a_paused_ingest_that_resumes_conflicts(
    work: Work, local: Any, spools: Path, drained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fail-over: while one is stopped in the middle of its round, another does the work."""
    real = LedgerTable.commit
    paused = [True]

    def commit(self: LedgerTable, *args: Any) -> None:
        if paused and self.spec.name == "steps":
            paused.pop()
            drained(Ingest(local.open(), spools))
        real(self, *args)

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

    def commit(self: LedgerTable, *args: Any) -> None:
        if pending and self.spec.name == "steps":
            pending.pop()
            local.open().tables["steps"].dataset.optimize.compact_files(compaction_mode="try_binary_copy")
        real(self, *args)

    monkeypatch.setattr(LedgerTable, "commit", commit)
    work.round(3)
    with pytest.raises(CommitConflict):
        worker.run_once()
    drained(worker)
    work.check(local.open())


def test_a_crash_after_the_announcement(work: Work, local: Any, spools: Path, drained: Any) -> None:
    """The next ingest has nothing to write: it sees that it is committed."""
    work.round(1)
    Ingest(local.open(), spools).flush()
    assert local.open().marks() == {}
    work.round(2)
    drained(Ingest(local.open(), spools))
    work.check(local.open())


@pytest.mark.parametrize("step", ["rows", "write", "announce"])
def test_a_crash_between_plan_and_announcement(
    work: Work, local: Any, spools: Path, drained: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    owner = {"rows": Rounds, "write": LedgerTable, "announce": Inbox}[step]

    def die(*_: Any) -> None:
        raise Died

    work.round(1)
    with monkeypatch.context() as broken:
        broken.setattr(owner, step, die)
        with pytest.raises(Died):
            Ingest(local.open(), spools).flush()
    work.round(2)
    drained(Ingest(local.open(), spools))
    work.check(local.open())


def test_an_announcement_that_landed_although_the_store_failed(
    work: Work, local: Any, spools: Path, drained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, real = Ingest(local.open(), spools), Inbox.announce

    def late(self: Inbox, flush: Any) -> None:
        real(self, flush)
        raise StoreError("timed out")

    work.round(1)
    with monkeypatch.context() as broken:
        broken.setattr(Inbox, "announce", late)
        with pytest.raises(StoreError, match="timed out"):
            worker.flush()
    work.round(2)
    drained(worker)
    work.check(local.open())


def test_several_flushes_on_their_way(work: Work, local: Any, spools: Path, drained: Any) -> None:
    """Each goes on from the one before, which nobody can read yet."""
    worker = Ingest(local.open(), spools)
    for number in range(4):
        work.round(number)
        assert worker.flush() > 0
    assert len(worker._journal.outstanding) == 4
    drained(worker)
    work.check(local.open())


def test_a_refused_flush_is_written_again_with_all_that_follow(
    work: Work, local: Any, spools: Path, drained: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later ones go on from rows that may come out otherwise now."""
    monkeypatch.setattr(ingest_module, "_MISSED_AFTER", 0.0)
    worker = Ingest(local.open(), spools)
    for number in range(3):
        work.round(number)
        worker.flush()
    inbox = worker._inbox
    first, *later = inbox.keys()
    before = {flush.key: flush for flush in inbox.read(later)}
    inbox.remove([first])
    assert not worker.settle()
    assert worker.flush() > 0
    assert inbox.keys() == [first], "the others wait until it is committed"
    assert worker.flush() == 0
    work.round(3)
    for _ in range(12):
        worker.run_once()
    work.check(local.open())
    assert len(before) == 2


@pytest.mark.parametrize("table", ["exchanges", "steps", "events", "commits"])
@pytest.mark.parametrize("announced", [True, False], ids=["still announced", "announcement gone"])
@pytest.mark.parametrize("more", [True, False])
def test_a_lost_journal(
    work: Work, local: Any, spools: Path, drained: Any, break_commit: Any, table: str, announced: bool, more: bool
) -> None:
    """Which records the begun flush held is nowhere said any more, except by what the tables have of them."""
    work.round(0)
    dead = Ingest(local.open(), spools)
    drained(dead)
    work.round(1)
    break_commit(table, "before", Died())
    with pytest.raises(Died):
        dead.run_once()
    dead._lease.release()
    (spools / "ingest.json").unlink()
    if not announced:
        dead._inbox.remove(dead._inbox.keys())
    if more:
        work.round(2)
    worker = Ingest(local.open(), spools)
    assert worker.writer != dead.writer
    # When the dead one's flush is committed first, the new one's is refused, and is looked for.
    with patch.object(ingest_module, "_MISSED_AFTER", 0.0):
        for _ in range(12):
            worker.run_once()
    work.check(local.open())


def test_a_journal_from_before(work: Work, local: Any, spools: Path, drained: Any) -> None:
    """A power cut took the newest one: its numbers are given again, for other records."""
    worker = Ingest(local.open(), spools)
    work.round(0)
    drained(worker)
    kept = (spools / "ingest.json").read_bytes()
    work.round(1)
    worker.flush()
    (spools / "ingest.json").write_bytes(kept)
    work.round(2)
    again = Ingest(local.open(), spools)
    with pytest.raises(StoreError, match="another flush"):
        again.run_once()
    with patch.object(ingest_module, "_MISSED_AFTER", 0.0):
        for _ in range(12):
            again.run_once()
    work.check(local.open())


def test_a_spool_that_is_gone_holds_up_nobody(
    work: Work, local: Any, spools: Path, new_feed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Its records went with it; what others have in the same flush is taken anew."""
    lost = new_feed("lost")
    lost.step(step_id="gone")
    work.round(1)
    dead = Ingest(local.open(), spools)
    dead.flush()
    dead._inbox.remove(dead._inbox.keys())
    dead._lease.release()
    lost.close()
    for path in spools.glob("lost.*"):
        path.unlink()
    work.round(2)
    worker = Ingest(local.open(), spools)
    for _ in range(6):
        worker.run_once()
    work.check(local.open())
    assert f"records of {lost.producer} are gone" in caplog.text


def test_a_damaged_spool_beside_does_not_keep_a_flush_from_being_written_again(
    work: Work, local: Any, spools: Path, drained: Any, caplog: pytest.LogCaptureFixture
) -> None:
    work.round(1)
    dead = Ingest(local.open(), spools)
    dead.flush()
    dead._inbox.remove(dead._inbox.keys())
    (spools / "broken.db").write_bytes(b"no database" * 500)
    drained(Ingest(local.open(), spools))
    work.check(local.open())
    assert "is not written again" not in caplog.text


def test_a_warehouse_that_was_thrown_away(work: Work, local: Any, spools: Path, tmp_path: Path, drained: Any) -> None:
    """With flushes on their way into it: the new one gets what the spools still have."""
    worker = Ingest(local.open(), spools)
    work.round(0)
    worker.run_once()
    work.round(1)
    worker.flush()
    shutil.rmtree(local.uri)
    again = Ingest(local.open(), spools)
    for _ in range(6):
        again.run_once()
    work.check(local.open())


def test_two_folders_into_one_warehouse(new_feed: Any, local: Any, spools: Path, tmp_path: Path, drained: Any) -> None:
    """Two machines: what both submit is there once, whichever comes first; the one with the lease commits for both."""
    far = tmp_path / "far"
    here, there = new_feed("a"), Spool(far / "b.db")
    one, two = Ingest(local.open(), spools), Ingest(local.open(), far)
    expected = set()
    for number in range(6):
        body = (
            Step(step_id=f"s{number}", messages=[user("q")], response=said("a"))
            .model_dump_json(exclude_none=True)
            .encode()
        )
        there.append([Entry(id=f"step.s{number}", kind="step", body=body)])
        here.step(step_id=f"s{number}")
        expected |= {f"s{number}"}
        first, second = (one, two) if number % 2 else (two, one)
        first.flush()
        second.flush()  # neither can see the other's
        for _ in range(4):
            one.run_once()
            two.run_once()
            with patch.object(ingest_module, "_MISSED_AFTER", 0.0):
                one.settle()
                two.settle()
    there.close()
    warehouse = local.open()
    steps = warehouse.tables["steps"].dataset.to_table(columns=["step_id"], filter="ledger IS NULL")["step_id"]
    assert Counter(steps.to_pylist()) == Counter(expected)
    assert warehouse.marks() == {here.producer: 6, there.producer: 6}
