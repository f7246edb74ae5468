"""A flush's worth of records to rows: each id once, whoever else has it, and the same rows when it is done again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._ingest.intake import Intake, Taken
from stepwell.warehouse._ingest.round import Rounds, Rows
from stepwell.warehouse._redact.rules import Redactor


@pytest.fixture
def read(spools: Path) -> Callable[..., Taken]:
    intake = Intake(spools, Redactor())
    return lambda marks=None: intake.read(marks or {})


@pytest.fixture
def rounds(warehouse: Warehouse) -> Rounds:
    return Rounds(warehouse)


def rows(rounds: Rounds, taken: Taken, number: int = 1) -> Rows:
    rounds.look()
    return rounds.rows(taken.parsed, taken.ranges, number)


def ids(made: Rows, table: str = "steps") -> list[str]:
    found: list[str] = made.tables[table].column(0).to_pylist() if table in made.tables else []
    return found


def values(made: Rows) -> dict[str, list[dict[str, Any]]]:
    """Without the moments at which they were made."""
    later = {"created_at"}
    return {
        name: table.drop_columns([column for column in table.column_names if column in later]).to_pylist()
        for name, table in made.tables.items()
    }


def test_tables_without_rows_are_left_out(feed: Any, rounds: Rounds, read: Any) -> None:
    feed.request([{"role": "user", "content": "q"}])
    assert rows(rounds, read()).tables == {}


def test_rows_come_from_their_records(feed: Any, rounds: Rounds, read: Any) -> None:
    feed.step(step_id="a", reward=1.0)
    feed.feedback(step_id="a", reward=2.0, name="other")
    made = rows(rounds, read())
    assert made.tables["steps"].select(["step_id", "producer", "sequence"]).to_pylist() == [
        {"step_id": "a", "producer": feed.producer, "sequence": 1}
    ]
    assert made.tables["events"]["sequence"].to_pylist() == [1, 2]
    assert all(isinstance(table, pa.Table) for table in made.tables.values())


def test_what_others_may_have_submitted_is_said(feed: Any, rounds: Rounds, read: Any, warehouse: Warehouse) -> None:
    """And in which version it was not there. The steps of a captured call nobody else can have."""
    feed.step(step_id="a")
    feed.exchange([{"role": "user", "content": "q"}])
    feed.feedback(feedback_id="f", step_id="a", reward=1.0)
    made = rows(rounds, read())
    assert made.submitted == {"steps": ["a"], "events": ["f"]}
    for name in ("steps", "events"):
        assert made.checked[name] == warehouse.tables[name].dataset.version


def test_an_id_twice_in_a_flush_is_one_row(new_feed: Any, rounds: Rounds, read: Any) -> None:
    for name in ("one", "two"):
        feed = new_feed(name)
        feed.step(step_id="a", response=name)
        feed.feedback(feedback_id="f", step_id="a", reward=1.0)
    made = rows(rounds, read())
    assert ids(made) == ["a"]
    assert ids(made, "events") == ["f"]


def test_an_id_of_a_flush_that_is_on_its_way_is_known(new_feed: Any, rounds: Rounds, read: Any) -> None:
    one, two = new_feed("one"), new_feed("two")
    one.step(step_id="a")
    first = read()
    assert ids(rows(rounds, first, 1)) == ["a"]
    two.step(step_id="a")
    two.step(step_id="b")
    assert ids(rows(rounds, read({one.producer: 1}), 2)) == ["b"]


def test_it_is_known_from_the_table_once_it_is_settled(
    new_feed: Any, rounds: Rounds, read: Any, warehouse: Warehouse, spools: Path
) -> None:
    one, two = new_feed("one"), new_feed("two")
    one.step(step_id="a")
    rows(rounds, read(), 1)
    Ingest(warehouse, spools).run_once()
    rounds.settled(1)
    assert rounds._waiting == {"steps": {}}, "or memory would grow for ever"
    two.step(step_id="a")
    assert ids(rows(rounds, read({one.producer: 1}), 2)) == []


def test_a_flush_done_again_comes_out_the_same(feed: Any, new_feed: Any, read: Any, local: Any, spools: Path) -> None:
    """Some tables may have it already: its own rows are no reason to leave anything out."""
    feed.trajectory("t", group_id="g")
    talk = [{"role": "user", "content": "q"}]
    for number in range(3):
        feed.exchange(talk, f"a{number}", "t")
        talk = [*talk, {"role": "assistant", "content": f"a{number}"}, {"role": "user", "content": "r"}]
    feed.step(step_id="a", reward=1.0)
    taken = read()
    first = values(rows(Rounds(local.open()), taken))
    warehouse = local.open()
    again = Rounds(warehouse)
    made = rows(again, taken)
    for name in ("steps", "events"):
        warehouse.tables[name].commit(
            made.tables[name], {feed.producer: max(made.tables[name]["sequence"].to_pylist())}
        )
    third = rows(Rounds(local.open()), read())
    assert first.keys() == third.tables.keys()
    assert [row["step_id"] for row in first["steps"]] == ids(third)
    assert [row["event_id"] for row in first["events"]] == ids(third, "events")
    assert {row["step_id"]: row["parent_id"] for row in first["steps"]} == {
        row["step_id"]: row["parent_id"] for row in third.tables["steps"].to_pylist()
    }


def test_what_is_forgotten_is_read_again(
    feed: Any, rounds: Rounds, read: Any, warehouse: Warehouse, spools: Path
) -> None:
    talk = [{"role": "user", "content": "q"}]
    first = feed.exchange(talk, "a", "t")
    rows(rounds, read())
    Ingest(warehouse, spools).run_once()
    rounds.forget()
    feed.exchange([*talk, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}], "b", "t")
    made = rows(rounds, read({feed.producer: 2}), 2)
    assert made.tables["steps"]["parent_id"].to_pylist() == [first]
