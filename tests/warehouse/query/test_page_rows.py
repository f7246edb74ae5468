"""A page that is found by the order of commit is the page of the plain statement."""

from __future__ import annotations

from typing import Any

import pytest
from tests.warehouse.made_facts import Facts

from stepwell.warehouse import BadQuery, Warehouse
from stepwell.warehouse._query import page_rows as _page_rows
from stepwell.warehouse._query.query import run_query
from stepwell.warehouse._query.rows import rows_about
from stepwell.warehouse._query.view_of_steps import RESOLVED
from stepwell.warehouse._tables.versions import History

KEY = '"commit", producer, sequence, step_id'


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Which nobody writes to."""
    warehouse = Warehouse.open(tmp_path_factory.mktemp("filled") / "warehouse")
    facts = Facts(warehouse, 13)
    for size in (1, 30, 2, 2, 9, 3, 25, 4):
        facts.commit(size)
    facts.commit(5, announced=True)
    return warehouse


def plain(warehouse: Warehouse, sql: str, at: int | None = None) -> list[Any]:
    warehouse.refresh()
    history = History.read(warehouse.tables["commits"].dataset)
    found: list[Any] = run_query(warehouse.tables, sql, history=history, at=at).to_pylist()
    return found


@pytest.mark.parametrize("direction", ["DESC", "ASC"])
@pytest.mark.parametrize("limit", [6, 500])
def test_pages_one_after_the_other(filled: Warehouse, direction: str, limit: int) -> None:
    order = ", ".join(f"{name} {direction}" for name in KEY.split(", "))
    after, seen = "", []
    while True:
        sql = f"SELECT * FROM steps s {after} ORDER BY {order} LIMIT {limit}"
        page = filled.query(sql).to_pylist()
        assert page == plain(filled, sql)
        if not page:
            break
        seen += [row["step_id"] for row in page]
        last = page[-1]
        key = f"{last['commit']}, '{last['producer'].replace(chr(39), chr(39) * 2)}', {last['sequence']}, '{last['step_id']}'"
        after = f"WHERE ({KEY}) {'<' if direction == 'DESC' else '>'} ({key})"
    assert len(seen) == len(set(seen)) == plain(filled, "SELECT count(*) AS n FROM steps")[0]["n"]


@pytest.mark.parametrize("at", [1, 6, None])
@pytest.mark.parametrize(
    "sql",
    [
        'SELECT step_id FROM steps ORDER BY "commit" DESC, step_id LIMIT 7',
        'SELECT step_id, labels FROM steps ORDER BY "commit", producer DESC, step_id LIMIT 7',
        'SELECT step_id FROM steps s WHERE step_reward > 0 ORDER BY s."commit" DESC, producer DESC, sequence DESC, step_id LIMIT 2',
        'SELECT step_id FROM steps WHERE trainable AND trajectory_reward IS NULL ORDER BY "commit", step_id LIMIT 3',
        "SELECT event_id, kind FROM events WHERE kind = 'label' ORDER BY \"commit\" DESC, event_id LIMIT 3",
        'SELECT event_id FROM events ORDER BY "commit", producer, sequence, event_id LIMIT 12',
        "SELECT step_id, step_rewards, side FROM steps WHERE 't''3' = trajectory_id ORDER BY step_id",
        "SELECT count(*) AS n, sum(step_reward) AS total FROM steps WHERE trajectory_id = 't''3' AND trainable",
        "SELECT * FROM steps WHERE step_id = 's0003' OR trajectory_id = 't''1' ORDER BY step_id",
        "SELECT step_id, trajectory_rewards FROM steps WHERE step_id = 's0003'",
        "SELECT * FROM events WHERE target_id IN ('t''3', 's0003', 'nobody') ORDER BY event_id",
        "SELECT kind, count(*) AS n, sum(value) AS v FROM events e WHERE e.target_id = 't''3' AND kind <> 'label' GROUP BY 1 ORDER BY 1",
        "SELECT * FROM feedback WHERE target_kind = 'step' AND target_id IN ('s0003', 's0004') ORDER BY event_id LIMIT 20",
        "SELECT * FROM feedback WHERE author = 'nobody' OR target_id = 't''3' ORDER BY event_id",
        'SELECT step_id FROM steps WHERE "commit" > 5 ORDER BY "commit" DESC, step_id LIMIT 900',
        'SELECT step_id FROM steps s WHERE s."commit" > 2 AND trainable ORDER BY "commit", step_id LIMIT 4',
        'SELECT step_id FROM steps WHERE "commit" > 99 ORDER BY "commit" DESC LIMIT 9',
        'SELECT step_id FROM steps WHERE "commit" > 2 OR turn = 0 ORDER BY "commit", step_id LIMIT 9',
        'SELECT step_id FROM steps WHERE NOT "commit" > 2 ORDER BY "commit", step_id LIMIT 9',
        'SELECT event_id FROM events WHERE "commit" > 6 ORDER BY "commit" DESC, event_id LIMIT 900',
        'SELECT step_id FROM steps WHERE "commit" > -1 AND "commit" > 3 ORDER BY "commit", step_id LIMIT 9',
        'SELECT "commit" AS step_id, producer AS "commit" FROM steps ORDER BY "commit", step_id LIMIT 3',
        "SELECT max(step_id) AS m FROM steps LIMIT 1",
        'SELECT DISTINCT producer FROM steps ORDER BY "commit", producer LIMIT 2',
        'SELECT step_id FROM steps ORDER BY "commit" DESC, step_id LIMIT 3 OFFSET 4',
        "SELECT step_id FROM steps WHERE trajectory_id = 't''1' AND step_id IN (SELECT step_id FROM steps) ORDER BY 1",
        "SELECT row_number() OVER (ORDER BY step_id) AS n, step_id FROM steps WHERE trajectory_id = 't''1' ORDER BY 1",
    ],
)
def test_the_answer_is_that_of_all_rows(filled: Warehouse, sql: str, at: int | None) -> None:
    try:
        expected = plain(filled, sql, at)
    except BadQuery:  # the database does not allow it: neither way
        with pytest.raises(BadQuery):
            filled.query(sql, at)
        return
    assert filled.query(sql, at).to_pylist() == expected


@pytest.mark.parametrize("view", ["steps", "events", "feedback"])
def test_any_rows_are_whole_rows(filled: Warehouse, view: str) -> None:
    found = filled.query(f"SELECT * FROM {view} LIMIT 5").to_pylist()
    everything = plain(filled, f"SELECT * FROM {view}")
    assert len(found) == 5 and all(row in everything for row in found)
    assert len(filled.query(f"SELECT * FROM {view} LIMIT 1000")) == len(everything)


@pytest.mark.parametrize("name", RESOLVED)
def test_what_a_column_is_made_of_is_read(filled: Warehouse, name: str) -> None:
    """Of each column that is resolved, alone: nothing that it needs is left out because nobody named it."""
    for condition in (
        "trajectory_id IN ('t''1', 't''3', 't''7')",
        f"step_id > 's0002' AND step_id = 's0003' OR {name} IS NULL",
    ):
        sql = f"SELECT step_id, {name} FROM steps WHERE {condition} ORDER BY step_id".replace("commit", '"commit"')
        assert filled.query(sql).to_pylist() == plain(filled, sql)
    page = f"SELECT {name} FROM steps ORDER BY {KEY} LIMIT 9".replace("SELECT commit", 'SELECT "commit"')
    assert filled.query(page).to_pylist() == plain(filled, page)


def test_feedback_is_found_among_other_events(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page of it takes one look, whatever else was told meanwhile."""
    looked: list[int] = []

    def noted(*arguments: Any, **how: Any) -> Any:
        looked.append(len(how["within"]["events"]))
        return run_query(*arguments, **how)

    monkeypatch.setattr(_page_rows, "run_query", noted)
    found = filled.query("SELECT * FROM feedback LIMIT 2")
    assert len(found) == 2 and len(looked) == 1


@pytest.mark.parametrize("view", ["events", "feedback"])
def test_only_what_was_said_about_the_target_is_looked_at(
    filled: Warehouse, view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = filled.query("SELECT target_id, count(*) AS n FROM events GROUP BY 1 ORDER BY n DESC, 1 LIMIT 1").to_pylist()
    looked: list[int] = []

    def noted(*arguments: Any, **how: Any) -> Any:
        looked.append(len(how["within"]["events"]))
        return run_query(*arguments, **how)

    monkeypatch.setattr(_page_rows, "run_query", noted)
    target = said[0]["target_id"].replace("'", "''")
    filled.query(f"SELECT * FROM {view} WHERE target_id = '{target}'")
    assert looked and looked[0] <= said[0]["n"] + 1  # and the ledger's row, where it has none


def test_few_rows_are_looked_at(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def noted(tables: Any, column: str, ids: list[str], *more: Any) -> Any:
        looked.append(len(ids))
        return rows_about(tables, column, ids, *more)

    monkeypatch.setattr(_page_rows, "rows_about", noted)
    filled.query(f"SELECT step_id FROM steps ORDER BY {KEY} LIMIT 3")
    filled.query("SELECT step_id FROM steps WHERE step_id = 's0003'")
    few = len(filled.query('SELECT step_id FROM steps WHERE "commit" > 7 ORDER BY "commit" DESC, step_id LIMIT 500'))
    assert looked[0] <= 5 and looked[1] == 1 and looked[2:] == [few]


def test_responses_are_whole(feed: Any, ingest: Any, warehouse: Warehouse) -> None:
    """What is stored apart is read with the few rows, too."""
    long = "x" * 10_000
    feed.step(
        step_id="s",
        trajectory_id="t",
        messages=[{"role": "user", "content": "q"}],
        response={"role": "assistant", "content": long},
    )
    ingest()
    for sql in ("SELECT * FROM steps LIMIT 1", "SELECT response FROM steps WHERE trajectory_id = 't'"):
        assert warehouse.query(sql).to_pylist()[0]["response"] == plain(warehouse, sql)[0]["response"]
        assert long in warehouse.query(sql)["response"][0].as_py()
