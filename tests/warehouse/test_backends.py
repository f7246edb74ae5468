"""One behaviour, whatever the store: a folder, moto, localbucket, and a store that fails in one request of ten.

What is asked of `store` holds on all of them. What is asked of `faulty` is about one fault at a time, at a moment that the test chooses.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.stores import FaultyStore, Place

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse import Ingest
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import COMMITS, TABLES

QUICK = {"client_max_retries": "1", "client_retry_timeout": "3", "timeout": "2s"}
"""Storage options of a client that gives up soon, so that a failure is one, and not a wait."""
ATTEMPTS = 40


def rows(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([{"commit_id": str(n), "commit": n} for n in numbers], schema=COMMITS.schema)


def open_table(place: Place) -> LedgerTable:
    return LedgerTable(COMMITS, place.uri, place.options)


def held(table: LedgerTable) -> list[int]:
    """The data rows, and a check that there is exactly one ledger row."""
    table.refresh()
    everything = table.dataset.to_table(columns=["commit", "ledger"]).to_pylist()
    assert sum(row["ledger"] is not None for row in everything) == 1
    return sorted(row["commit"] for row in everything if row["ledger"] is None)


def persistent(call: Callable[[], Any]) -> Any:
    """What a process does that is told that the store failed: it asks again."""
    for _ in range(ATTEMPTS):
        try:
            return call()
        except StoreError:
            continue
    return call()


def take_in(place: Place, spools: Path) -> None:
    """All that is in the spools, as the ingest process goes about it."""
    worker = persistent(lambda: Ingest(place.open(), spools))
    while persistent(worker.run_once):
        pass


class Work:
    """Agents that leave something behind for every table, and what must come of it."""

    def __init__(self, feed: Any) -> None:
        self.feed = feed
        self.talk: list[dict[str, Any]] = [{"role": "user", "content": "q"}]
        self.steps: list[str] = []

    def round(self) -> None:
        number = len(self.steps)
        self.steps.append(self.feed.exchange(self.talk, f"a{number}", "t"))
        self.talk = [
            *self.talk,
            {"role": "assistant", "content": f"a{number}"},
            {"role": "user", "content": f"r{number}"},
        ]
        self.feed.feedback(step_id=self.steps[-1], reward=float(number))

    def check(self, place: Place) -> None:
        """Each step once, as the parent of the next, whole, with its reward."""
        warehouse = persistent(lambda: place.open(create=False))
        found = persistent(lambda: warehouse.query("SELECT step_id, parent_id, step_reward FROM steps ORDER BY turn"))
        assert found["step_id"].to_pylist() == self.steps
        assert found["parent_id"].to_pylist() == [None, *self.steps[:-1]]
        assert found["step_reward"].to_pylist() == [float(number) for number in range(len(self.steps))]
        whole = persistent(lambda: pa.table(warehouse.steps(columns=["messages"])))
        assert whole["messages"].null_count == 0
        assert persistent(warehouse.marks)[self.feed.producer] == 3 * len(self.steps)


@pytest.fixture
def work(feed: Any) -> Work:
    return Work(feed)


# --- on every store ---------------------------------------------------------------------------------------------------------------


def test_opening_makes_every_table_once(store: Place) -> None:
    with pytest.raises(StoreError, match="there is no"):
        store.open(create=False)
    with ThreadPoolExecutor(3) as pool:
        opened = list(pool.map(lambda _: persistent(store.open), range(3)))
    for warehouse in opened:
        assert set(warehouse.tables) == {spec.name for spec in TABLES}
    again = persistent(lambda: store.open(create=False))
    for name, table in again.tables.items():
        assert table.dataset.count_rows() == 1, f"{name} has its ledger row and nothing else"
    assert persistent(again.marks) == {}


def test_what_was_committed_is_there_for_others(store: Place) -> None:
    table, other = open_table(store), open_table(store)
    persistent(lambda: table.add(lambda: rows(1, 2)))
    assert other.dataset.count_rows() == 1, "until it looks"
    assert persistent(lambda: held(other)) == [1, 2]


def test_marks_are_committed_with_the_rows(store: Place) -> None:
    table = open_table(store)
    _commit(table, 1, {"p": 2})
    _commit(table, 2, {"p": 3, "q": 1})
    assert persistent(lambda: held(table)) == [1, 2]
    assert persistent(lambda: open_table(store).marks()) == {"p": 3, "q": 1}


def _commit(table: LedgerTable, number: int, marks: dict[str, int]) -> None:
    """As the committer does it: where the outcome is unknown, the ledger tells."""
    for _ in range(ATTEMPTS):
        persistent(table.refresh)
        known = persistent(table.marks)
        if all(known.get(producer, 0) >= mark for producer, mark in marks.items()):
            return
        try:
            table.commit(rows(number), marks)
        except StoreError:  # a conflict is one, too: with our own commit whose answer got lost
            continue


def test_of_two_writers_the_later_conflicts(store: Place) -> None:
    first, second = open_table(store), open_table(store)
    _commit(first, 1, {"p": 1})
    with pytest.raises(CommitConflict, match=r"commits\.lance"):
        persistent_but_for_conflicts(lambda: second.commit(rows(1), {"p": 1}))
    persistent(second.refresh)
    _commit(second, 2, {"p": 2})
    assert persistent(lambda: held(first)) == [1, 2]


def persistent_but_for_conflicts(call: Callable[[], Any]) -> Any:
    for _ in range(ATTEMPTS):
        try:
            return call()
        except CommitConflict:
            raise
        except StoreError:
            continue
    return call()


def test_writers_at_once_lose_nothing_and_double_nothing(store: Place) -> None:
    persistent(lambda: open_table(store))

    def write(writer: int) -> None:
        table = persistent(lambda: open_table(store))
        for number in range(1, 4):
            _commit(table, 10 * writer + number, {f"p{writer}": number})

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    table = persistent(lambda: open_table(store))
    assert persistent(lambda: held(table)) == [10 * writer + number for writer in range(4) for number in range(1, 4)]
    assert persistent(table.marks) == {f"p{writer}": 3 for writer in range(4)}


def test_a_compaction_between_two_commits_of_one_writer(store: Place) -> None:
    """It merges the ledger row with data, and the writer does not know where it left it."""
    table, maintainer = persistent(lambda: open_table(store)), persistent(lambda: open_table(store))
    for number in range(1, 4):
        _commit(table, number, {"p": number})
    persistent(lambda: _compact(maintainer))
    try:
        table.commit(rows(4), {"p": 4})
    except StoreError:
        _commit(table, 4, {"p": 4})
    assert persistent(lambda: held(maintainer)) == [1, 2, 3, 4]
    _commit(table, 5, {"p": 5})
    assert persistent(lambda: held(maintainer)) == [1, 2, 3, 4, 5]


def _compact(table: LedgerTable) -> None:
    table.refresh()
    try:
        table.dataset.optimize.compact_files(compaction_mode="try_binary_copy")
    except (OSError, RuntimeError, ValueError) as error:
        raise StoreError(str(error)) from error


def test_spools_become_steps_and_datasets(store: Place, work: Work, spools: Path) -> None:
    for _ in range(2):
        work.round()
    take_in(store, spools)
    work.round()
    take_in(store, spools)
    work.check(store)
    warehouse = persistent(store.open)
    made = persistent(lambda: warehouse.datasets.create("d", "step_reward > 0"))
    work.round()
    take_in(store, spools)
    reader = persistent(lambda: store.open(create=False))
    read = persistent(lambda: pa.table(reader.datasets.read("d", made.version)))
    assert read["step_id"].to_pylist() == work.steps[1:3]
    assert read["step_reward"].to_pylist() == [1.0, 2.0]
    assert [item.name for item in persistent(reader.datasets.list)] == ["d"]


def test_compaction_changes_nothing(store: Place, work: Work, spools: Path) -> None:
    for _ in range(2):
        work.round()
        take_in(store, spools)
    persistent(persistent(store.open).maintain)
    work.check(store)
    work.round()
    take_in(store, spools)
    work.check(store)


# --- one fault at a time ----------------------------------------------------------------------------------------------------------


def test_a_store_that_ignores_conditions_is_refused_for_writing(faulty: FaultyStore, work: Work, spools: Path) -> None:
    place = faulty.place()
    work.round()
    take_in(place, spools)
    faulty.faults.conditions = False
    with pytest.raises(StoreError, match="ignores If-None-Match"):
        place.open()
    work.check(place)


def test_a_reader_writes_nothing(faulty: FaultyStore, work: Work, spools: Path) -> None:
    place = faulty.place()
    work.round()
    take_in(place, spools)
    faulty.seen.clear()
    denied = faulty.faults.denied()
    work.check(place)
    assert denied.hits == 0
    assert {seen.method for seen in faulty.seen} <= {"GET", "HEAD"}


@pytest.mark.parametrize(
    ("effect", "table", "times"),
    [
        ("status", "steps", 4),
        ("reset", "events", 4),
        ("lost", "steps", 3),
        ("lost", "commits", 3),
        ("hang", "commits", 2),
        ("cut upload", "steps", 4),
        ("cut answer", "commits", 4),
    ],
)
def test_a_fault_in_the_middle_of_a_round(
    faulty: FaultyStore, work: Work, spools: Path, effect: Any, table: str, times: int
) -> None:
    """Of writing or reading one table, more often than Lance asks again by itself. Then all is well, and everything there once."""
    place = faulty.place(**QUICK)
    work.round()
    take_in(place, spools)
    work.round()
    methods = ["GET"] if effect == "cut answer" else ["PUT"]
    rule = faulty.faults.add(effect, methods=methods, path=rf"/{table}\.lance/", times=times, seconds=2.5)
    take_in(place, spools)
    assert rule.hits
    faulty.faults.clear()
    work.round()
    take_in(place, spools)
    work.check(place)


def test_a_commit_whose_answer_is_lost_lands_once(faulty: FaultyStore) -> None:
    """The store has it, and whoever committed is told otherwise: a conflict with itself, or a failure. The ledger tells."""
    table = open_table(faulty.place(**QUICK))
    rule = faulty.faults.add("lost", methods=["PUT"], path=r"_versions/|\.manifest", times=1)
    _commit(table, 1, {"p": 1})
    assert rule.hits == 1
    _commit(table, 2, {"p": 2})
    assert held(table) == [1, 2]


@pytest.mark.parametrize("trouble", ["away", "full", "denied"])
def test_the_spool_holds_what_the_store_does_not_take(
    faulty: FaultyStore, work: Work, spools: Path, trouble: str
) -> None:
    place = faulty.place(**QUICK)
    work.round()
    take_in(place, spools)
    worker = Ingest(place.open(), spools)
    work.round()
    getattr(faulty if trouble == "away" else faulty.faults, trouble)()
    with pytest.raises(StoreError) as caught:
        worker.run_once()
    assert "test" not in str(caught.value).replace(place.uri, "").split(), "no credentials"
    work.round()
    faulty.back()
    faulty.faults.clear()
    while persistent(worker.run_once):
        pass
    work.check(place)
