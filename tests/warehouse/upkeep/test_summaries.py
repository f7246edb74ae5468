"""Summaries say what the facts say: whatever was kept when, and however much came since."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from tests.warehouse.made_facts import Facts

from stepwell.errors import CommitConflict
from stepwell.warehouse import Warehouse
from stepwell.warehouse._commit.committer import commit_rows
from stepwell.warehouse._ingest.rows import rows_of
from stepwell.warehouse._query.query import run_query
from stepwell.warehouse._tables.schema import EVENTS, EXCHANGES, STEPS, TableSpec
from stepwell.warehouse._tables.versions import History
from stepwell.warehouse._upkeep.summaries import clear

VIEWS = {"trajectories": "trajectory_id", "groups": "group_id"}


def both(warehouse: Warehouse, view: str) -> tuple[list[Any], list[Any]]:
    """Its rows as a user gets them, and over the facts alone."""
    sql = f"SELECT * FROM {view} ORDER BY {VIEWS[view]}"
    asked = warehouse.query(sql)
    history = History.read(warehouse.tables["commits"].dataset)
    plain = run_query(warehouse.tables, sql, history=history)
    assert asked.schema == plain.schema
    return asked.to_pylist(), plain.to_pylist()


def check(warehouse: Warehouse) -> None:
    for view in VIEWS:
        asked, plain = both(warehouse, view)
        assert asked == plain


@pytest.mark.parametrize("seed", range(2))
def test_the_views_are_those_of_the_facts(warehouse: Warehouse, seed: int) -> None:
    facts = Facts(warehouse, seed)
    for turn in range(6):
        facts.commit(1 + (turn * 7 + seed) % 9, announced=turn % 5 == 3)
        if (turn + seed) % 3 == 0:
            warehouse.summarise()
        check(warehouse)
    facts.finish()
    check(warehouse)
    warehouse.summarise()
    assert warehouse.summarise() == 0, "there is nothing more to do"
    check(warehouse)


def event(warehouse: Warehouse, number: int, **fields: Any) -> None:
    """Commit one event of a producer."""
    row = {"event_id": f"x{number}", "producer": "x", "sequence": number, "created_at": None, **fields}
    put(warehouse, EVENTS, [row], number)


def put(warehouse: Warehouse, spec: TableSpec, rows: list[dict[str, Any]], number: int) -> None:
    warehouse.tables[spec.name].commit(rows_of(spec, rows), {})
    commits = warehouse.tables["commits"]
    commits.commit(commit_rows(number, commits.marks(), {"x": number}, {}), {"x": number}, number)


def opened(group: str | None = None) -> dict[str, Any]:
    payload = orjson.dumps({"group_id": group}).decode()
    return {
        "kind": "trajectory.open",
        "target_kind": "trajectory",
        "target_id": "t",
        "name": "state",
        "payload": payload,
    }


def test_an_end_counts_when_what_it_waits_for_arrives(warehouse: Warehouse) -> None:
    """Nothing that comes then is about the trajectory."""
    event(warehouse, 1, **opened("g"))
    ended = {**opened(), "kind": "trajectory.completed", "payload": '{"marks":{"x":4}}'}
    event(warehouse, 2, **ended)
    warehouse.summarise()
    for number, state in ((3, "open"), (4, "completed")):
        event(warehouse, number, kind="label", target_kind="step", target_id="another", name="label", text="good")
        check(warehouse)
        assert warehouse.query("SELECT state FROM trajectories").to_pylist() == [{"state": state}]
        assert warehouse.summarise() == number - 3


def test_an_attempt_that_was_superseded_is_not_trainable_any_more(warehouse: Warehouse) -> None:
    step = {"step_id": "s", "trajectory_id": "t", "trainable": True, "producer": "x", "sequence": 1}
    put(warehouse, STEPS, [step], 1)
    warehouse.summarise()
    event(warehouse, 2, kind="attempt.superseded", target_kind="step", target_id="s", text="s2")
    check(warehouse)
    assert warehouse.query("SELECT trainable_steps AS n FROM trajectories").to_pylist() == [{"n": 0}]


def test_a_step_that_was_kept_out_of_training_is_counted_again(warehouse: Warehouse) -> None:
    step = {"step_id": "s", "trajectory_id": "t", "trainable": True, "producer": "x", "sequence": 1}
    put(warehouse, STEPS, [step], 1)
    said = {"target_kind": "step", "target_id": "s"}
    for number, more, left in ((2, {"kind": "trainable", "value": 0.0}, 0), (3, {"kind": "undo", "text": "x2"}, 1)):
        warehouse.summarise()
        event(warehouse, number, **said, **more)
        check(warehouse)
        assert warehouse.query("SELECT trainable_steps AS n FROM trajectories").to_pylist() == [{"n": left}]


def test_a_trajectory_that_changes_its_group_leaves_the_other(warehouse: Warehouse) -> None:
    event(warehouse, 1, **opened("g1"))
    event(warehouse, 2, **{**opened("g1"), "target_id": "t2"})
    warehouse.summarise()
    event(warehouse, 3, **opened("g2"))
    check(warehouse)
    sql = "SELECT group_id, trajectories AS n FROM groups ORDER BY group_id"
    found = [{"group_id": "g1", "n": 1}, {"group_id": "g2", "n": 1}]
    assert warehouse.query(sql).to_pylist() == found
    warehouse.summarise()
    assert warehouse.query(sql).to_pylist() == found


def test_a_quarantined_call_is_a_gap(warehouse: Warehouse) -> None:
    event(warehouse, 1, **opened("g"))
    event(warehouse, 2, **{**opened(), "kind": "trajectory.completed"})
    warehouse.summarise()
    put(
        warehouse,
        EXCHANGES,
        [{"exchange_id": "e", "reason": "odd", "trajectory_id": "t", "producer": "x", "sequence": 3}],
        3,
    )
    check(warehouse)
    assert warehouse.query("SELECT state FROM trajectories").to_pylist() == [{"state": "incomplete"}]


def rows(warehouse: Warehouse) -> dict[str, list[Any]]:
    return {
        view: warehouse.tables[view].dataset.to_table(filter="ledger IS NULL").sort_by(key).to_pylist()
        for view, key in VIEWS.items()
    }


def test_made_anew_they_are_the_same(warehouse: Warehouse) -> None:
    facts = Facts(warehouse, 7)
    for _ in range(6):
        facts.commit(10)
        warehouse.summarise()
    kept = rows(warehouse)
    assert len(kept["trajectories"]) > 5 and len(kept["groups"]) >= 2
    clear(warehouse.tables)
    assert rows(warehouse) == {"trajectories": [], "groups": []}
    check(warehouse)
    warehouse.summarise()
    assert rows(warehouse) == kept


def test_only_what_was_touched_is_made_anew(warehouse: Warehouse) -> None:
    facts = Facts(warehouse, 1, trajectories=40)
    facts.commit(200)
    assert warehouse.summarise() > 20
    facts.commit(1)
    assert warehouse.summarise() <= 1


def test_an_older_version_is_of_the_facts(warehouse: Warehouse) -> None:
    facts = Facts(warehouse, 2)
    facts.commit(30)
    before = warehouse.query("SELECT * FROM trajectories ORDER BY trajectory_id").to_pylist()
    facts.commit(30)
    warehouse.summarise()
    assert warehouse.query("SELECT * FROM trajectories ORDER BY trajectory_id").to_pylist() != before
    assert warehouse.query("SELECT * FROM trajectories ORDER BY trajectory_id", at=1).to_pylist() == before


def test_groups_that_are_behind_are_made_of_the_trajectories(
    warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = Facts(warehouse, 3)
    facts.commit(40)
    warehouse.summarise()
    facts.commit(40)
    groups = warehouse.tables["groups"]

    def refused(*_: object) -> None:
        raise CommitConflict("somebody else")

    with monkeypatch.context() as patch:
        patch.setattr(groups, "rewrite", refused)
        with pytest.raises(CommitConflict):
            warehouse.summarise()
    assert groups.number() < warehouse.tables["trajectories"].number()
    check(warehouse)
    warehouse.summarise()
    assert groups.number() == warehouse.tables["trajectories"].number()
    check(warehouse)


def test_a_summary_of_other_commits_is_not_used(warehouse: Warehouse) -> None:
    facts = Facts(warehouse, 4)
    facts.commit(20)
    warehouse.summarise()
    table = warehouse.tables["trajectories"]
    table.rewrite(table.spec.schema.empty_table(), "ledger IS NULL", {"another": 1}, 1)
    check(warehouse)
    assert warehouse.summarise() > 0, "it is made anew"
    check(warehouse)
    table.rewrite(table.spec.schema.empty_table(), "ledger IS NULL", table.marks(), 99)
    check(warehouse)


def test_a_stale_update_conflicts(warehouse: Warehouse, local: Any) -> None:
    facts, other = Facts(warehouse, 5), local.open()
    facts.commit(20)
    other.refresh()
    warehouse.summarise()
    with pytest.raises(CommitConflict):
        other.summaries.update(History.read(other.tables["commits"].dataset))
    check(other)


def group(warehouse: Warehouse) -> tuple[int, bool]:
    [row] = warehouse.query("SELECT trajectories, ready FROM groups").to_pylist()
    return row["trajectories"], row["ready"]


def test_readiness(warehouse: Warehouse, feed: Any, ingest: Any) -> None:
    for name in ("t1", "t2"):
        feed.trajectory(name, group_id="g", metadata={"group_size": 2} if name == "t1" else None)
        feed.step(trajectory_id=name)
        ingest()
        warehouse.summarise()
        assert group(warehouse)[1] is False
        feed.trajectory(name, "completed")
        feed.feedback(trajectory_id=name, reward=0.0)
        ingest()
        assert group(warehouse) == (1 if name == "t1" else 2, name == "t2"), "t1 said that there would be two"
    feed.trajectory("late", group_id="g")
    ingest()
    assert group(warehouse) == (3, False)
    feed.trajectory("late", "failed")
    feed.feedback(trajectory_id="late", reward=-1.0)
    ingest()
    assert group(warehouse) == (3, True)
