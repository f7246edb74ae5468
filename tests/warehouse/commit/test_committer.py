"""Announced flushes become one version: whole, once, in order, whoever commits, and however often it is begun."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from tests.stores import FaultyStore, Place

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._commit import choice as choice_module
from stepwell.warehouse._commit.choice import LITTER, OLD
from stepwell.warehouse._commit.committer import Committer
from stepwell.warehouse._store.flush import Flush, Inbox, Ranges
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import EVENTS, EXCHANGES, FORGOTTEN, SCHEMA_VERSION, TableSpec

FACTS = (EXCHANGES, EVENTS)


class Died(BaseException):
    """The process is gone: nobody catches this."""


class Desk:
    """A warehouse, its inbox, and writers that put flushes of events (and as many exchanges) into it."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.warehouse = place.open()
        self.inbox = Inbox(objects_at(place.uri, place.options))
        self._numbers: dict[str, int] = {}

    def committer(self, **more: Any) -> Committer:
        """As in a process of its own."""
        return Committer(self.place.open(), self.inbox, **more)

    def flush(self, ranges: Ranges, writer: str = "w", ids: Sequence[str] | None = None, **more: Any) -> Flush:
        """A flush with an event and an exchange for each record of `ranges`, or events of these ids; not announced yet."""
        number = more.pop("number", None) or self._numbers.get(writer, 0) + 1
        self._numbers[writer] = number
        places = [(name, at) for name, (after, upto) in ranges.items() for at in range(after + 1, upto + 1)]
        made = {spec: rows(spec, places) for spec in FACTS}
        if ids is not None:
            made[EVENTS] = (
                made[EVENTS].slice(0, len(ids)).set_column(0, EVENTS.schema.field(0), pa.array(ids, pa.string()))
            )
        tables = self.warehouse.tables
        for name in ("events", "exchanges"):
            tables[name].refresh()
        given: dict[str, Any] = {
            "fragments": {spec.name: tables[spec.name].write(table) for spec, table in made.items()},
            "submitted": {"events": list(ids)} if ids is not None else {},
            "checked": {"events": tables["events"].dataset.version},
            "schema": SCHEMA_VERSION,
            "at": time.time(),
        }
        return Flush(writer, number, ranges, **{**given, **more})

    def announce(self, *args: Any, **more: Any) -> Flush:
        flush = self.flush(*args, **more)
        self.inbox.announce(flush)
        return flush

    def waiting(self) -> list[tuple[str, int]]:
        return [(flush.writer, flush.number) for flush in self.inbox.read(self.inbox.keys())]

    def stored(self, spec: TableSpec = EVENTS) -> list[tuple[str, int]]:
        """The records whose rows the table has, visible or not."""
        table = self.warehouse.tables[spec.name]
        table.refresh()
        columns = table.dataset.to_table(columns=["producer", "sequence"], filter="ledger IS NULL").to_pylist()
        return sorted((row["producer"], row["sequence"]) for row in columns)

    def commits(self) -> list[tuple[int, str, int, int]]:
        table = self.warehouse.tables["commits"]
        table.refresh()
        columns = ["commit", "producer", "after", "sequence"]
        found = table.dataset.to_table(columns=columns, filter="ledger IS NULL").to_pylist()
        return sorted((row["commit"], row["producer"], row["after"], row["sequence"]) for row in found)

    def check(self, upto: dict[str, int]) -> None:
        """Each record once in each table, up to these, and commits that follow each other without a gap."""
        records = sorted((name, at) for name, mark in upto.items() for at in range(1, mark + 1))
        for spec in FACTS:
            assert self.stored(spec) == records
        assert self.warehouse.marks() == upto
        reached: dict[str, int] = {}
        for number, producer, after, sequence in self.commits():
            assert after == reached.get(producer, 0), (number, producer)
            reached[producer] = sequence
        assert reached == upto


def rows(spec: TableSpec, places: Sequence[tuple[str, int]]) -> pa.Table:
    made = [{spec.key: f"{name}.{at}", "producer": name, "sequence": at} for name, at in places]
    return pa.Table.from_pylist(made, schema=spec.schema)


@pytest.fixture
def desk(local: Place) -> Desk:
    return Desk(local)


Break = Callable[..., None]


@pytest.fixture
def break_commit(monkeypatch: pytest.MonkeyPatch) -> Break:
    """The next commit of a table raises `error`, or runs something, before it does anything or after it landed."""
    real = LedgerTable.commit

    def arm(name: str, when: str, error: BaseException | Callable[[], None]) -> None:
        armed = [error]

        def strike() -> None:
            found = armed.pop()
            if isinstance(found, BaseException):
                raise found
            found()

        def commit(self: LedgerTable, *args: Any) -> None:
            hit = bool(armed) and self.spec.name == name
            if hit and when == "before":
                strike()
            real(self, *args)
            if hit and when == "after":
                strike()

        monkeypatch.setattr(LedgerTable, "commit", commit)

    return arm


def test_what_waits_becomes_one_commit(anywhere: Place) -> None:
    desk = Desk(anywhere)
    committer = desk.committer()
    assert committer.run_once() == 0
    desk.announce({"p": (0, 3)})
    desk.announce({"p": (3, 5), "q": (0, 2)})
    desk.announce({"r": (0, 1)}, "v")
    assert desk.warehouse.marks() == {}
    assert committer.run_once() == 3
    desk.check({"p": 5, "q": 2, "r": 1})
    assert {number for number, *_ in desk.commits()} == {1}
    assert desk.waiting() == []
    assert committer.run_once() == 0
    desk.announce({"p": (5, 6)})
    assert committer.run_once() == 1
    desk.check({"p": 6, "q": 2, "r": 1})
    assert desk.warehouse.tables["commits"].number() == 2


def test_a_flush_without_rows_is_committed(desk: Desk) -> None:
    """Requests whose answers are still to come."""
    desk.announce({"p": (0, 3)}, fragments={})
    assert desk.committer().run_once() == 1
    assert desk.commits() == [(1, "p", 0, 3)]
    assert desk.stored() == []


def test_a_commit_says_which_versions_of_the_tables_it_is(desk: Desk) -> None:
    desk.announce({"p": (0, 1)})
    desk.committer().run_once()
    desk.warehouse.refresh()
    [row] = desk.warehouse.tables["commits"].dataset.to_table(filter="ledger IS NULL").to_pylist()
    events = desk.warehouse.tables["events"].dataset.version
    assert f'"events":{events}' in row["versions"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("table", ["exchanges", "events", "commits"])
def test_a_commit_that_dies_is_gone_on_with(desk: Desk, break_commit: Break, table: str, when: str) -> None:
    desk.announce({"p": (0, 3)})
    desk.announce({"p": (3, 4), "q": (0, 1)})
    break_commit(table, when, Died())
    with pytest.raises(Died):
        desk.committer().run_once()
    if (table, when) != ("commits", "after"):
        assert desk.warehouse.marks() == {}
        desk.announce({"p": (4, 6)})  # more has come when the next one looks
    committer = desk.committer()
    while committer.run_once():
        pass
    desk.check({"p": 6 if (table, when) != ("commits", "after") else 4, "q": 1})
    assert desk.waiting() == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("table", ["exchanges", "events", "commits"])
def test_a_store_that_fails_or_says_so(desk: Desk, break_commit: Break, table: str, when: str) -> None:
    """It may have done the work before it timed out. The same committer goes on, with what it knows."""
    committer = desk.committer()
    desk.announce({"p": (0, 1)})
    committer.run_once()
    desk.announce({"p": (1, 3)})
    break_commit(table, when, StoreError("Commit result for version 7 is unknown"))
    with pytest.raises(StoreError, match="unknown"):
        committer.run_once()
    committer.run_once()
    desk.check({"p": 3})
    assert desk.waiting() == []


def test_what_is_committed_and_could_not_be_removed_goes_later(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.announce({"p": (0, 3)})
    committer = desk.committer()

    def fail(*_: Any) -> None:
        raise StoreError("the store failed")

    with monkeypatch.context() as patch:
        patch.setattr(Inbox, "remove", fail)
        with pytest.raises(StoreError):
            committer.run_once()
    assert committer.run_once() == 0
    desk.check({"p": 3})
    assert desk.waiting() == []


@pytest.mark.parametrize("table", ["exchanges", "events", "commits"])
def test_a_paused_committer_that_resumes_changes_nothing(desk: Desk, break_commit: Break, table: str) -> None:
    """While one is stopped before its commit, another does all of the work, and more."""
    desk.announce({"p": (0, 3)})
    other = desk.committer()

    def meanwhile() -> None:
        while other.run_once():
            pass
        desk.announce({"p": (3, 5)})
        other.run_once()

    break_commit(table, "before", meanwhile)
    paused = desk.committer()
    with pytest.raises(CommitConflict):
        paused.run_once()
    desk.check({"p": 5})
    desk.announce({"p": (5, 6)})
    assert paused.run_once() == 1, "and works again after it has looked"
    desk.check({"p": 6})


def test_one_that_lost_the_lease_stops_between_tables(desk: Desk) -> None:
    answers = [True, True, False]  # when it looks, and before each table
    desk.announce({"p": (0, 2)})
    with pytest.raises(CommitConflict, match="lease"):
        desk.committer(hold=lambda: answers.pop(0)).run_once()
    assert (len(desk.stored(EXCHANGES)), desk.stored(EVENTS), desk.warehouse.marks()) == (2, [], {})
    assert desk.committer().run_once() == 1
    desk.check({"p": 2})


def test_without_the_lease_nothing_is_looked_at(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.announce({"p": (0, 2)})
    ours = [False, True, True, True, True]
    committer = desk.committer(hold=lambda: ours.pop(0))
    assert committer.run_once() == 0
    assert desk.waiting() == [("w", 1)]
    assert committer.run_once() == 1
    assert ours == []


def test_a_commit_waits_for_few_answers_in_a_row(anywhere: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the tables are to hold is written before any of them is committed, all at the same time."""
    desk, order = Desk(anywhere), list[str]()
    for name in ("_write", "_commit"):
        real = getattr(LedgerTable, name)

        def told(self: LedgerTable, *args: Any, name: str = name, real: Any = real) -> Any:
            order.append(name)
            return real(self, *args)

        monkeypatch.setattr(LedgerTable, name, told)
    committer = desk.committer()
    desk.announce({"p": (0, 2)})
    order.clear()
    assert committer.run_once() == 1
    assert order == ["_write"] * 4 + ["_commit"] * 3, "a ledger row of each of three tables, and the rows of `commits`"


def test_compaction_by_another_in_the_middle(desk: Desk, local: Place, break_commit: Break) -> None:
    def compact() -> None:
        table = local.open().tables["events"]
        table.dataset.optimize.compact_files(compaction_mode="try_binary_copy")

    committer = desk.committer()
    for number in range(3):
        desk.announce({"p": (number, number + 1)})
        committer.run_once()
    desk.announce({"p": (3, 4)})
    break_commit("events", "before", compact)
    with pytest.raises(CommitConflict):
        committer.run_once()
    assert committer.run_once() == 1
    desk.check({"p": 4})


def test_two_that_both_commit(desk: Desk) -> None:
    """The lease is for speed: without it each finds out, and nothing comes of it."""
    one, two = desk.committer(), desk.committer()
    for number in range(6):
        desk.announce({"p": (number * 2, number * 2 + 2)})
        committer = (one, two)[number % 2]
        try:
            committer.run_once()
        except CommitConflict:
            committer.run_once()
    desk.check({"p": 12})


def test_flushes_of_a_writer_go_in_order(desk: Desk) -> None:
    second, first = desk.flush({"p": (3, 5)}, number=2), desk.flush({"p": (0, 3)}, number=1)
    committer = desk.committer()
    desk.inbox.announce(second)
    assert committer.run_once() == 0
    assert desk.waiting() == [("w", 2)], "it waits for what comes before it"
    desk.inbox.announce(first)
    assert committer.run_once() == 2
    desk.check({"p": 5})


def test_a_flush_waits_for_what_it_needs_of_other_producers(desk: Desk) -> None:
    """Its steps may be differences to those of the writer's flush before, whoever of its producers they came from."""
    first, second = desk.flush({"p": (0, 3)}), desk.flush({"q": (0, 2)}, needs={"p": 3})
    committer = desk.committer()
    desk.inbox.announce(second)
    assert committer.run_once() == 0
    desk.inbox.announce(first)
    assert committer.run_once() == 2
    desk.check({"p": 3, "q": 2})


def test_what_is_committed_already_is_removed(desk: Desk) -> None:
    flush = desk.announce({"p": (0, 3)})
    committer = desk.committer()
    committer.run_once()
    desk.inbox.announce(flush)  # a PUT that took its time
    assert committer.run_once() == 0
    assert desk.waiting() == []
    desk.check({"p": 3})


def test_what_is_committed_in_part_is_refused(desk: Desk) -> None:
    """Of an ingest that lost its journal: it plans again from what is committed."""
    desk.announce({"p": (0, 3)})
    committer = desk.committer()
    committer.run_once()
    desk.announce({"p": (0, 5)}, "v")
    assert committer.run_once() == 0
    assert desk.waiting() == []
    desk.check({"p": 3})


@pytest.mark.parametrize("other", [{"p": (0, 5)}, {"p": (0, 3), "q": (0, 1)}, {"p": (0, 2), "q": (0, 1)}])
@pytest.mark.parametrize("writer", ["a", "z"])
def test_a_flush_across_one_that_was_begun_is_refused(
    desk: Desk, break_commit: Break, other: Ranges, writer: str
) -> None:
    """A table has some of its records already: they would be there twice. The begun one is gone on with, whoever is looked at first."""
    desk.announce({"p": (0, 3)})
    break_commit("events", "before", Died())
    with pytest.raises(Died):
        desk.committer().run_once()
    desk.announce(other, writer)
    committer = desk.committer()
    while committer.run_once():
        pass
    desk.check({"p": 3})
    assert desk.waiting() == []


def test_a_flush_over_a_day_old_is_refused(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    desk.announce({"p": (0, 1)}, at=time.time() - OLD - 60)
    desk.announce({"p": (1, 2)})
    with caplog.at_level(logging.INFO):
        assert desk.committer().run_once() == 0
    assert "over a day old" in caplog.text
    assert desk.waiting() == [], "later ones go on from it, and are written anew after it"
    assert desk.stored() == []


@pytest.mark.parametrize("wrong", [-7 * OLD, 7 * OLD])
def test_a_wrong_clock_stops_nothing(desk: Desk, wrong: float) -> None:
    """Written anew, it seems as old as before."""
    committer = desk.committer()
    flush = desk.announce({"p": (0, 1)}, at=time.time() + wrong)
    assert committer.run_once() == 0
    desk.inbox.announce(flush)
    assert committer.run_once() == 1
    desk.check({"p": 1})


def test_a_flush_of_an_older_schema_is_refused(desk: Desk) -> None:
    desk.announce({"p": (0, 1)}, schema=SCHEMA_VERSION - 1)
    assert desk.committer().run_once() == 0
    assert desk.waiting() == []


def files_of(desk: Desk, *flushes: Flush) -> list[bool]:
    """Whether the files of these are there, by flush and table."""
    objects = objects_at(desk.place.uri, desk.place.options)
    return [
        objects.get(f"{name}.lance/data/{file['path']}") is not None
        for flush in flushes
        for name in sorted(flush.fragments)
        for one in flush.fragments[name]
        for file in json.loads(one)["files"]
    ]


def test_the_files_of_a_refused_flush_go_with_it(anywhere: Place) -> None:
    desk = Desk(anywhere)
    good = desk.announce({"q": (0, 2)}, "v")
    refused = desk.announce({"p": (0, 1)}, schema=SCHEMA_VERSION - 1)
    after = desk.announce({"p": (1, 2)})
    assert files_of(desk, good, refused, after) == [True] * 6
    assert desk.committer().run_once() == 1
    assert files_of(desk, good, refused, after) == [True, True, False, False, False, False]
    desk.check({"q": 2})
    desk.announce({"p": (0, 2)}, "w")  # written anew
    assert desk.committer().run_once() == 1
    desk.check({"q": 2, "p": 2})


def test_files_that_a_table_has_stay(desk: Desk, break_commit: Break) -> None:
    """A flush is refused whose ranges another one, begun before, has in part: that one's files, and all that are committed, stay."""
    begun = desk.announce({"p": (0, 3)})
    break_commit("events", "before", Died())
    with pytest.raises(Died):
        desk.committer().run_once()
    across = desk.announce({"p": (0, 5)}, "a")
    committer = desk.committer()
    while committer.run_once():
        pass
    assert files_of(desk, begun, across) == [True, True, False, False]
    desk.check({"p": 3})


def test_of_a_refused_flush_that_was_begun_only_the_rest_goes(desk: Desk) -> None:
    """It is in one table, and another one has got some of its records otherwise."""
    flush = desk.announce({"p": (0, 3)})
    exchanges, events = (desk.warehouse.tables[name] for name in ("exchanges", "events"))
    exchanges.commit(flush.fragments["exchanges"], {"p": 3})
    events.commit(rows(EVENTS, [("p", 1)]), {"p": 1})
    assert desk.committer().run_once() == 0
    assert desk.waiting() == []
    assert files_of(desk, flush) == [False, True]
    assert len(desk.stored(EXCHANGES)) == 3


def test_files_of_what_seems_old_stay(desk: Desk) -> None:
    """Which clock is wrong is not known; clean-up takes them in time."""
    old = desk.announce({"p": (0, 1)}, at=time.time() - OLD - 60)
    desk.committer().run_once()
    assert desk.waiting() == []
    assert files_of(desk, old) == [True, True]


def test_nobody_commits_what_another_has_refused(
    desk: Desk, break_commit: Break, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that disagree: one has read the announcement, and is paused while the other deletes the files."""
    flush = desk.announce({"p": (0, 2)})
    paused, other = desk.committer(), desk.committer()

    def refuse() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(choice_module.Choice, "_unfit", lambda *_: "it does not please")
            assert other.run_once() == 0
        assert files_of(desk, flush) == [False, False]

    break_commit("exchanges", "before", refuse)
    with pytest.raises(CommitConflict):
        paused.run_once()
    assert paused.run_once() == 0
    desk.check({})


def test_what_was_begun_goes_on(desk: Desk, break_commit: Break) -> None:
    flush = desk.announce({"p": (0, 3)}, at=time.time() - OLD - 60, schema=SCHEMA_VERSION)
    desk.warehouse.tables["exchanges"].refresh()
    desk.warehouse.tables["exchanges"].commit(flush.fragments["exchanges"], {"p": 3})
    assert desk.committer().run_once() == 1
    desk.check({"p": 3})


def test_what_was_begun_almost_a_week_ago_is_written_anew(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """Its fragments may be gone by now, and a commit would not notice."""
    caplog.set_level("INFO")
    flush = desk.announce({"p": (0, 3)}, at=time.time() - LITTER - 60, schema=SCHEMA_VERSION)
    desk.warehouse.tables["exchanges"].refresh()
    desk.warehouse.tables["exchanges"].commit(flush.fragments["exchanges"], {"p": 3})
    assert desk.committer().run_once() == 0
    assert "written anew" in caplog.text


@pytest.mark.parametrize("together", [True, False])
def test_an_id_that_somebody_else_submitted_meanwhile_is_refused(desk: Desk, together: bool) -> None:
    """Both writers looked before either was committed."""
    committer = desk.committer()
    first, second = desk.flush({"p": (0, 1)}, "v", ids=["x"]), desk.flush({"q": (0, 1)}, "w", ids=["x"])
    desk.inbox.announce(first)
    if not together:
        committer.run_once()
    desk.inbox.announce(second)
    committer.run_once()
    assert desk.stored() == [("p", 1)]
    assert desk.waiting() == []
    assert desk.warehouse.marks() == {"p": 1}
    desk.announce({"q": (0, 1)}, "w", ids=[])  # written anew, without it
    assert committer.run_once() == 1
    assert desk.warehouse.marks() == {"p": 1, "q": 1}


@pytest.mark.parametrize("restarted", [True, False])
def test_an_id_that_came_under_another_committer_is_found(desk: Desk, restarted: bool) -> None:
    """This one lost the lease and has it again: what it remembers has a gap."""
    committer = desk.committer()
    desk.announce({"p": (0, 1)}, "u", ids=["a"])
    committer.run_once()
    late = desk.flush({"q": (0, 1)}, "w", ids=["x"])
    desk.announce({"r": (0, 1)}, "v", ids=["x"])
    desk.committer().run_once()
    if restarted:
        committer = desk.committer()
    desk.inbox.announce(late)
    for _ in range(2):
        try:
            committer.run_once()
        except CommitConflict:
            continue
    assert ("q", 1) not in desk.stored()
    assert desk.warehouse.marks() == {"p": 1, "r": 1}


def test_a_writers_own_ids_are_its_own_business(desk: Desk) -> None:
    committer = desk.committer()
    first, second = desk.flush({"p": (0, 1)}, ids=["x"]), desk.flush({"p": (1, 2)}, ids=["y"])
    desk.inbox.announce(first)
    committer.run_once()
    desk.inbox.announce(second)
    assert committer.run_once() == 1


def test_reading_what_is_stored_that_fails_is_a_store_error(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    late = desk.flush({"q": (0, 1)}, "w", ids=["x"])
    desk.announce({"r": (0, 1)}, "v")
    desk.committer().run_once()
    desk.inbox.announce(late)

    def fail(*_: Any) -> None:
        raise OSError("connection reset")

    committer = desk.committer()
    with monkeypatch.context() as patch:
        patch.setattr(choice_module, "matching", fail)
        with pytest.raises(StoreError, match="connection reset"):
            committer.run_once()
    assert committer.run_once() == 1


def test_what_cannot_be_read_stops_nobody_else(desk: Desk) -> None:
    objects = objects_at(desk.place.uri, desk.place.options)
    flush = desk.flush({"p": (0, 1)})
    objects.put(flush.key, b"{")
    desk.announce({"p": (1, 2)})
    desk.announce({"q": (0, 2)}, "v")
    committer = desk.committer()
    assert committer.run_once() == 1
    assert desk.warehouse.marks() == {"q": 2}
    objects.put(flush.key, flush.encoded())
    assert committer.run_once() == 2
    desk.check({"p": 2, "q": 2})


def test_what_cannot_go_on_is_not_read_again_and_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a machine that is gone, it waits for ever."""
    desk.announce({"gone": (1, 2)}, "a", number=2)
    committer, looks = desk.committer(), []
    real = Inbox.read

    def read(self: Inbox, keys: Sequence[str]) -> list[Flush]:
        looks.append(keys)
        return real(self, keys)

    monkeypatch.setattr(Inbox, "read", read)
    assert [committer.run_once() for _ in range(5)] == [0] * 5
    assert len(looks) == 1
    desk.announce({"p": (0, 1)}, "z")
    assert committer.run_once() == 1
    desk.announce({"gone": (0, 1)}, "a", number=1)
    assert committer.run_once() == 2


def test_many_that_cannot_go_on_hide_nobody(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice_module, "MAX_FLUSHES", 2)
    for number in range(20):
        desk.announce({"gone": (number + 1, number + 2)}, "a")
    desk.announce({"p": (0, 1)}, "z")
    assert desk.committer().run_once() == 1
    assert desk.warehouse.marks() == {"p": 1}


def test_a_commit_is_bounded(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice_module, "MAX_FLUSHES", 2)
    for number in range(5):
        desk.announce({"p": (number, number + 1)})
    committer = desk.committer()
    assert [committer.run_once() for _ in range(4)] == [2, 2, 1, 0]
    desk.check({"p": 5})


def test_a_round_is_few_requests(faulty: FaultyStore) -> None:
    """For one table and `commits`: without looking anew at tables that nobody else writes."""
    desk = Desk(faulty.place())
    committer = desk.committer()
    for number in range(3):
        desk.announce({"p": (number, number + 1)})
        faulty.seen.clear()
        committer.run_once()
    assert len(faulty.seen) <= 1 + 3 + 4 + 4 + 5 + 1, [f"{one.method} {one.path}" for one in faulty.seen]
    faulty.seen.clear()
    committer.run_once()
    assert len(faulty.seen) <= 1


def test_a_store_that_goes_away_for_a_while(faulty: FaultyStore) -> None:
    desk = Desk(faulty.place(client_max_retries="1", client_retry_timeout="2"))
    committer = desk.committer()
    desk.announce({"p": (0, 1)})
    committer.run_once()
    desk.announce({"p": (1, 3)})
    rule = faulty.faults.add("reset", methods=("PUT",), path="commits.lance")
    with pytest.raises(StoreError):
        committer.run_once()
    assert desk.warehouse.marks() == {"p": 1}
    faulty.faults.remove(rule)
    assert committer.run_once() == 1
    desk.check({"p": 3})


def test_a_flush_from_before_something_was_forgotten_is_refused(desk: Desk) -> None:
    """Also by a committer that has found its tables as it left them all the time."""
    committer = desk.committer()
    desk.announce({"p": (0, 1)})
    committer.run_once()
    desk.announce({"p": (1, 2)})
    forgotten = desk.place.open().tables["forgotten"]
    forgotten.commit(FORGOTTEN.schema.empty_table(), {}, 1)
    assert committer.run_once() == 0
    assert desk.waiting() == []
    desk.announce({"p": (1, 2)}, checked={"forgotten": 1})
    assert committer.run_once() == 1
    desk.check({"p": 2})


@pytest.mark.parametrize("looked", [False, True], ids=["new", "looked before"])
def test_what_waits_for_a_writer_that_is_gone_is_refused_too(desk: Desk, looked: bool) -> None:
    """Or whoever forgets would wait for it for ever. Also what was written after it, which builds on it."""
    desk.announce({"gone": (1, 2)}, "a", number=2)
    desk.announce({"gone": (2, 3)}, "a", number=3, checked={"forgotten": 1})
    desk.announce({"other": (1, 2)}, "b", number=2, checked={"forgotten": 1})
    committer = desk.committer()
    if looked:
        assert committer.run_once() == 0
        assert len(desk.waiting()) == 3
    desk.place.open().tables["forgotten"].commit(FORGOTTEN.schema.empty_table(), {}, 1)
    assert committer.run_once() == 0
    assert desk.waiting() == [("b", 2)], "which knows what was forgotten"
    for number in (1, 2, 3):
        desk.announce({"gone": (number - 1, number)}, "a", number=number, checked={"forgotten": 1})
    assert committer.run_once() == 3


def test_what_another_committer_did_meanwhile_holds_nothing_up(desk: Desk) -> None:
    """Paused, it was replaced for a while; what waits goes on from commits that it has not seen."""
    paused, other = desk.committer(), desk.committer()
    desk.announce({"p": (0, 1)})
    assert paused.run_once() == 1
    desk.announce({"p": (1, 2)})
    assert other.run_once() == 1
    desk.announce({"p": (2, 3)})
    assert paused.run_once() == 1
    desk.check({"p": 3})
