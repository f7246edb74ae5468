"""A commit lands once, whatever was stale, repeated, compacted or lost in between."""

from __future__ import annotations

from contextlib import suppress
from tempfile import TemporaryDirectory
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.stores import FaultyStore

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._tables.ledger import LedgerTable, refresh_all
from stepwell.warehouse._tables.schema import COMMITS
from stepwell.warehouse._tables.table import LEDGER_KEY


def rows(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"commit_id": str(n), "commit": n} for n in numbers], schema=COMMITS.schema)


def open_table(place: Any) -> LedgerTable:
    return LedgerTable(COMMITS, place.uri, place.options)


def held(table: LedgerTable) -> list[int]:
    """The data rows, and a check that there is exactly one ledger row."""
    table.refresh()
    everything = table.dataset.to_table(columns=["commit_id", "commit"]).to_pylist()
    assert sum(row["commit_id"] == LEDGER_KEY for row in everything) == 1
    return sorted(row["commit"] for row in everything if row["commit_id"] != LEDGER_KEY)


def test_a_commit_adds_rows_and_marks(anywhere: Any) -> None:
    table = open_table(anywhere)
    table.commit(rows(1, 2), {"p": 2})
    table.commit(rows(3), {"p": 3, "q": 1})
    assert held(table) == [1, 2, 3]
    assert open_table(anywhere).marks() == {"p": 3, "q": 1}


def test_a_stale_commit_conflicts_and_writes_nothing(anywhere: Any) -> None:
    first, second = open_table(anywhere), open_table(anywhere)
    first.commit(rows(1), {"p": 1})
    with pytest.raises(CommitConflict, match=r"commits\.lance"):
        second.commit(rows(1), {"p": 1})
    assert held(first) == [1]
    second.refresh()
    second.commit(rows(2), {"p": 2})
    assert held(first) == [1, 2]


def test_a_repeated_commit_conflicts(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a paused committer does that resumes with exactly what it had prepared."""
    table, landed = open_table(local), []
    commit = lance.LanceDataset.commit

    def recorded(*args: Any, **kwargs: Any) -> Any:
        landed.append((args, kwargs))
        return commit(*args, **kwargs)

    monkeypatch.setattr(lance.LanceDataset, "commit", staticmethod(recorded))
    table.commit(rows(1), {"p": 1})
    [(args, kwargs)] = landed
    with pytest.raises(OSError, match="conflict"):
        commit(*args, **kwargs)
    assert held(table) == [1]


def test_compaction_in_between_conflicts_and_keeps_the_ledger(anywhere: Any) -> None:
    table, other = open_table(anywhere), open_table(anywhere)
    for number in range(1, 6):
        table.commit(rows(number), {"p": number})
    other.refresh()
    table.dataset.optimize.compact_files(compaction_mode="try_binary_copy")
    with pytest.raises(CommitConflict):
        other.commit(rows(6), {"p": 6})
    other.refresh()
    assert len(other.dataset.get_fragments()) == 1, "the ledger row now lies among data rows"
    for number in range(6, 9):
        other.commit(rows(number), {"p": number})
    assert held(table) == list(range(1, 9))
    assert table.marks() == {"p": 8}


def test_a_prepared_ledger_row_is_the_one_that_is_committed(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table, written = open_table(local), list[int]()
    real = LedgerTable._write

    def write(self: LedgerTable, made: pa.Table) -> Any:
        written.append(made.num_rows)
        return real(self, made)

    monkeypatch.setattr(LedgerTable, "_write", write)
    table.prepare({"p": 2})
    assert held(table) == [], "nothing is changed by it"
    table.commit(rows(1, 2), {"p": 2})
    assert (held(table), table.marks(), written) == ([1, 2], {"p": 2}, [1, 2])
    table.prepare({"p": 3})
    table.commit(rows(3, 4), {"p": 4})
    assert (held(table), open_table(local).marks()) == ([1, 2, 3, 4], {"p": 4}), "not one that says something else"
    table.prepare({"p": 5})
    other = open_table(local)
    other.commit(rows(6), {"q": 1})
    table.refresh()
    table.commit(rows(5), {"p": 5})
    assert open_table(local).marks() == {"p": 5, "q": 1}, "nor one of before others committed"


def test_looking_costs_a_request_and_one_more_where_there_is_something_new(faulty: FaultyStore) -> None:
    place = faulty.place()
    table, other = open_table(place), open_table(place)

    def asked(look: Any) -> int:
        before = len(faulty.seen)
        look()
        return len(faulty.seen) - before

    assert asked(table.refresh) == 1
    other.commit(rows(1), {"p": 1})
    assert asked(table.refresh) == 2
    assert asked(table.marks) == 1
    assert asked(table.marks) == 0
    other.commit(rows(2), {"p": 2})
    assert asked(lambda: refresh_all([table, other])) == 3
    assert table.marks() == {"p": 2}


def test_marks_never_go_back(local: Any) -> None:
    table = open_table(local)
    table.commit(rows(1), {"p": 100, "q": 1})
    table.commit(rows(2), {"p": 60, "r": 5})
    assert table.marks() == {"p": 100, "q": 1, "r": 5}


def test_add_is_asked_again_for_the_newest_state(local: Any) -> None:
    table, other = open_table(local), open_table(local)
    asked = []

    def next_number() -> pa.Table:
        asked.append(max(held(table), default=0) + 1)
        if len(asked) == 1:
            other.refresh()
            other.commit(rows(7), {"p": 9})
        return rows(asked[-1])

    table.add(next_number)
    assert asked == [1, 8]
    assert held(table) == [7, 8]
    assert table.marks() == {"p": 9}, "what comes from no spool leaves the marks alone"


def test_what_landed_and_was_called_a_conflict_is_not_added_again(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store whose answer is lost is asked again by its client, and refuses then what it has."""
    table = open_table(local)
    commit = table.commit

    def conflicting(*args: Any) -> None:
        commit(*args)
        raise CommitConflict("another process committed first")

    monkeypatch.setattr(table, "commit", conflicting)
    table.add(lambda: rows(1, 2))
    assert held(table) == [1, 2]


def test_add_gives_up_in_the_end(local: Any) -> None:
    table, other = open_table(local), open_table(local)

    def always_late() -> pa.Table:
        other.refresh()
        other.commit(rows(), {})
        return rows(1)

    with pytest.raises(StoreError, match="others committed first"):
        table.add(always_late)
    assert held(table) == []


@pytest.mark.parametrize("attempt", ["commit", "marks"])
def test_a_lost_ledger_is_named(local: Any, attempt: str) -> None:
    table = open_table(local)
    table.dataset.delete(f"commit_id = '{LEDGER_KEY}'")
    table.refresh()
    with pytest.raises(StoreError, match="lost its ledger row"):
        table.commit(rows(1), {"p": 1}) if attempt == "commit" else table.marks()


def test_a_failing_store_is_no_conflict(local: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The word in a path or a message does not make it one: a conflict is retried at once, a failure is not."""
    table = open_table(local)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError("conflict-free folder: disk full, /rust/lance/src/io.rs:12:3")

    monkeypatch.setattr(lance.LanceDataset, "commit", staticmethod(fail))
    with pytest.raises(StoreError, match=r"disk full$") as caught:
        table.commit(rows(1), {"p": 1})
    assert not isinstance(caught.value, CommitConflict)


def test_what_was_written_before_is_committed_later(anywhere: Any) -> None:
    """By another process, which knows only what describes it; and nothing shows before."""
    writer, committer = open_table(anywhere), open_table(anywhere)
    fragments = [one for number in (1, 2) for one in writer.write(rows(number))]
    assert held(committer) == []
    committer.commit(fragments, {"p": 2}, 7)
    assert held(committer) == [1, 2]
    assert (committer.marks(), committer.number()) == ({"p": 2}, 7)
    reader = open_table(anywhere)
    assert (reader.marks(), reader.number()) == ({"p": 2}, 7)


def test_a_commit_without_rows_raises_the_marks(local: Any) -> None:
    table = open_table(local)
    table.commit(rows(), {"p": 1})
    table.commit([], {"p": 2})
    assert held(table) == []
    assert table.marks() == {"p": 2}


def test_the_count_never_goes_back(local: Any) -> None:
    table = open_table(local)
    table.commit(rows(1), {}, 5)
    table.commit(rows(2), {})
    assert table.number() == 5


def test_marks_are_a_copy(local: Any) -> None:
    table = open_table(local)
    table.commit(rows(1), {"p": 1})
    table.marks()["p"] = 99
    assert table.marks() == {"p": 1}


def test_what_others_committed_is_seen_after_a_look(local: Any) -> None:
    one, other = open_table(local), open_table(local)
    one.commit(rows(1), {"p": 1}, 1)
    assert (other.marks(), other.number()) == ({}, 0)
    other.refresh()
    assert (other.marks(), other.number()) == ({"p": 1}, 1)


@pytest.mark.parametrize("between", ["index", "compaction", "columns", "delete"])
def test_work_of_another_kind_in_between_keeps_ledger_and_rows(local: Any, between: str) -> None:
    """The table knows by itself where it put its ledger row: until somebody else has touched it."""
    table, other = open_table(local), open_table(local)
    for number in range(1, 4):
        table.commit(rows(number), {"p": number}, number)
    other.refresh()
    match between:
        case "index":
            other.dataset.create_scalar_index("commit", "BTREE")
        case "compaction":
            other.dataset.optimize.compact_files(compaction_mode="try_binary_copy")
        case "columns":
            other.dataset.add_columns(pa.field("later", pa.int64()))
        case _:
            other.dataset.delete("commit = 2")
    gone = {2} if between == "delete" else set()
    for number in range(4, 7):
        try:
            table.commit(rows(number), {"p": number}, number)
        except CommitConflict:
            table.refresh()
            table.commit(rows(number), {"p": number}, number)
    assert held(table) == sorted({1, 2, 3, 4, 5, 6} - gone)
    assert (open_table(local).marks(), open_table(local).number()) == ({"p": 6}, 6)


def test_a_commit_from_before_a_compaction_takes_no_rows_with_it(local: Any) -> None:
    """The ledger row now shares a fragment with data: removing that one would remove them, too."""
    table, other = open_table(local), open_table(local)
    for number in range(1, 6):
        table.commit(rows(number), {"p": number})
    other.refresh()
    other.dataset.optimize.compact_files(compaction_mode="try_binary_copy")
    with pytest.raises(CommitConflict):
        table.commit(rows(6), {"p": 6})
    table.refresh()
    for number in (6, 7):
        table.commit(rows(number), {"p": number})
    assert held(table) == [1, 2, 3, 4, 5, 6, 7]


def test_a_commit_whose_answer_was_lost_landed_once(faulty: FaultyStore) -> None:
    """The store did it and timed out; Lance asks again, and meets its own commit."""
    table = open_table(faulty.place())
    rule = faulty.faults.add("lost", methods=("PUT",), path="_versions", times=1)
    with suppress(StoreError):  # whether it says so or not
        table.commit(rows(1), {"p": 1}, 1)
    assert rule.hits == 1
    assert held(table) == [1]
    assert table.marks() == {"p": 1}


def test_a_commit_is_few_requests(faulty: FaultyStore) -> None:
    """The ledger's fragment, a look for newer versions, the transaction, the version: each is 25 ms away."""
    table = open_table(faulty.place())
    table.commit(rows(1), {"p": 1})
    fragments = table.write(rows(2))
    faulty.seen.clear()
    table.commit(fragments, {"p": 2})
    table.marks()
    table.refresh()
    table.marks()
    assert len(faulty.seen) <= 4 + 1, [f"{one.method} {one.path}" for one in faulty.seen]


def test_a_full_store_is_a_store_error(faulty: FaultyStore) -> None:
    table = open_table(faulty.place(client_max_retries="1", client_retry_timeout="3"))
    rule = faulty.faults.full()
    with pytest.raises(StoreError, match=r"commits\.lance"):
        table.write(rows(1))
    with pytest.raises(StoreError, match=r"commits\.lance"):
        table.commit([], {"p": 1})
    faulty.faults.remove(rule)
    table.refresh()
    table.commit(rows(1), {"p": 1})
    assert held(table) == [1]


class Ledger(RuleBasedStateMachine):
    """Several processes with views of different age, each committing the next record: whatever lands, lands once and in order."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.tables = [LedgerTable(COMMITS, self.folder.name) for _ in range(3)]
        self.landed: list[int] = []

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(who=st.integers(0, 2), fresh=st.booleans())
    def commit(self, who: int, fresh: bool) -> None:
        table = self.tables[who]
        if fresh:
            table.refresh()
        number = table.marks().get("p", 0) + 1
        try:
            table.commit(rows(number), {"p": number}, number)
        except CommitConflict:
            assert number <= len(self.landed) or not fresh
        else:
            self.landed.append(number)

    @rule(who=st.integers(0, 2))
    def compact(self, who: int) -> None:
        self.tables[who].refresh()
        self.tables[who].dataset.optimize.compact_files(compaction_mode="try_binary_copy")

    @invariant()
    def each_once(self) -> None:
        assert self.landed == list(range(1, len(self.landed) + 1))
        assert held(LedgerTable(COMMITS, self.folder.name)) == self.landed


TestLedger = Ledger.TestCase
TestLedger.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)
