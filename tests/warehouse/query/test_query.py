"""SQL over the warehouse: what may be asked, what may not, and that the answers are right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stepwell.errors import StepwellError, StoreError
from stepwell.warehouse import BadQuery, Warehouse
from stepwell.warehouse._query import query as _query
from stepwell.warehouse._tables.table import FileGone


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@pytest.fixture
def filled(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> Warehouse:
    """Two trajectories of three turns, with tokens."""
    for name in ("t", "it's"):
        feed.trajectory(name, group_id="g", prompt_id="p", metadata={"suite": "unit"})
        talk, tokens = [user("q")], list(range(40))
        for turn in range(3):
            more = {"tools": [{"type": "function", "function": {"name": "calc"}}], "id": f"{name}{turn}"}
            feed.exchange(talk, f"a{turn}", name, ids=(tokens, [turn, 9]), **more)
            talk = [*talk, {"role": "assistant", "content": f"a{turn}"}, user(f"r{turn}")]
            tokens = [*tokens, turn, 9, 50]
    ingest()
    return warehouse


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM steps",
        "UPDATE steps SET status = 'ok'",
        "INSERT INTO steps SELECT * FROM steps",
        "CREATE TABLE mine AS SELECT 1",
        "DROP VIEW steps",
        "ATTACH '/tmp/x.db'",
        "COPY (SELECT 1) TO '{scratch}/x'",
        "PRAGMA database_list",
        "SET enable_external_access = true",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CALL pragma_version()",
    ],
)
def test_nothing_but_queries(warehouse: Warehouse, tmp_path: Path, sql: str) -> None:
    with pytest.raises(BadQuery, match="read only"):
        warehouse.query(sql.format(scratch=tmp_path))
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT content FROM read_text('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM sniff_csv('{file}')",
        "SELECT * FROM read_csv('http://127.0.0.1:1/x')",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/written'",
    ],
)
def test_no_file_and_no_network(warehouse: Warehouse, tmp_path: Path, sql: str) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    with pytest.raises(BadQuery):
        warehouse.query(sql.format(file=secret, folder=tmp_path))
    assert not (tmp_path / "written").exists()


@pytest.mark.parametrize("name", ["tables", "sql", "db", "self", "pytest"])
def test_names_in_the_code_are_no_tables(warehouse: Warehouse, name: str) -> None:
    with pytest.raises(BadQuery, match="does not exist"):
        warehouse.query(f"SELECT * FROM {name}")


def test_variables_of_the_process_are_no_tables(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """DuckDB would take any Arrow table or data frame that it finds by that name in the calling code."""
    monkeypatch.setattr(_query, "leak", pa.table({"secret": [1]}), raising=False)
    with pytest.raises(BadQuery, match="leak does not exist"):
        warehouse.query("SELECT * FROM leak")


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT 1; SELECT 2", "one statement at a time, please: this is 2"),
        ("", "one statement at a time, please: this is 0"),
        ("  -- nothing", "this is 0"),
        ("selec", "syntax error at or near"),
        ("SELECT nonsense FROM steps", 'Referenced column "nonsense" not found'),
        ("SELECT * FROM nowhere", "nowhere does not exist"),
        ("SELECT CAST('x' AS INTEGER)", "Could not convert"),
    ],
)
def test_mistakes_are_explained(warehouse: Warehouse, sql: str, why: str) -> None:
    with pytest.raises(BadQuery, match=why) as caught:
        warehouse.query(sql)
    assert isinstance(caught.value, StepwellError)


def test_explain_is_a_query(filled: Warehouse) -> None:
    assert filled.query("EXPLAIN SELECT * FROM steps WHERE turn = 1").num_rows > 0


@pytest.mark.parametrize(
    "view", ["steps", "events", "quarantine", "trajectories", "groups", "datasets", "dataset_rows"]
)
def test_the_ledger_row_is_in_no_view(filled: Warehouse, view: str) -> None:
    filled.datasets.create("d")
    found = filled.query(f"SELECT * FROM {view}")
    assert "ledger" not in found.column_names
    assert not any("__ledger__" in str(value) for row in found.to_pylist() for value in row.values())
    assert filled.query("SELECT count(*) AS n FROM steps")["n"].to_pylist() == [6]


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ("turn = 1", 2),
        ("turn IN (0, 2)", 4),
        ("turn BETWEEN 1 AND 2", 4),
        ("trajectory_id = 'it''s'", 3),
        ("trajectory_id LIKE 'it%'", 3),
        ("trajectory_id IN ('t', 'u')", 3),
        ("parent_id IS NULL", 2),
        ("parent_id IS NOT NULL AND NOT trainable", 0),
        ("trainable", 6),
        ("status <> 'ok' OR turn > 1", 2),
        ("started_at > now() - INTERVAL 1 DAY", 6),
        ("started_at > now() + INTERVAL 1 DAY", 0),
        ("prompt_length > 40", 4),
        ("list_contains(response_ids, 2)", 2),
        ("usage ->> 'completion_tokens' = '2'", 6),
        ('"commit" = 1', 6),
        ("finish_reason = 'stop' AND (engine = 'vllm' OR engine IS NULL)", 6),
    ],
)
def test_conditions(filled: Warehouse, condition: str, count: int) -> None:
    assert filled.query(f"SELECT step_id FROM steps WHERE {condition}").num_rows == count


def test_whole_columns_when_they_are_named(filled: Warehouse) -> None:
    assert {"prompt_ids", "messages", "tools"}.isdisjoint(filled.query("SELECT * FROM steps").column_names)
    found = filled.query("SELECT turn, prompt_ids, MESSAGES, tools FROM steps WHERE trajectory_id = 't' ORDER BY turn")
    rows = found.to_pylist()
    assert rows[2]["prompt_ids"] == [*range(40), 0, 9, 50, 1, 9, 50]
    texts = [message["content"][0]["text"] for message in json.loads(rows[2]["messages"])]
    assert texts == ["q", "a0", "r0", "a1", "r1"]
    assert [json.loads(row["tools"])[0]["function"]["name"] for row in rows] == ["calc"] * 3


def test_whole_columns_in_a_condition(filled: Warehouse) -> None:
    found = filled.query("SELECT turn FROM steps WHERE len(prompt_ids) = 43 AND messages LIKE '%r0%'")
    assert found["turn"].to_pylist() == [1, 1]


def test_a_name_that_only_looks_like_a_whole_column(filled: Warehouse) -> None:
    """It costs a reading, and changes nothing."""
    assert filled.query("SELECT count(*) AS messages FROM steps")["messages"].to_pylist() == [6]
    assert filled.query("SELECT 'tools' AS x FROM trajectories").num_rows == 2


def test_groups_and_joins(filled: Warehouse) -> None:
    [row] = filled.query(
        "SELECT g.group_id, count(s.step_id) AS n, any_value(o.payload -> 'metadata' ->> 'suite') AS suite "
        "FROM groups g JOIN steps s USING (group_id) JOIN events o ON o.target_id = s.trajectory_id GROUP BY ALL"
    ).to_pylist()
    assert row == {"group_id": "g", "n": 6, "suite": "unit"}


def test_the_newest_state_is_read(filled: Warehouse, feed: Any, local: Any, spools: Path, restarted: Any) -> None:
    feed.step(step_id="new")
    restarted()
    assert filled.query("SELECT step_id FROM steps WHERE step_id = 'new'").num_rows == 1


def test_a_file_that_goes_while_it_is_read_is_no_mistake_of_the_query(
    warehouse: Warehouse, feed: Any, ingest: Callable[[], int]
) -> None:
    feed.exchange([{"role": "user", "content": "hi"}])
    ingest()
    reading = Warehouse.open(warehouse.uri, create=False)
    reading.query("SELECT step_id FROM steps")
    for file in (Path(warehouse.uri) / "steps.lance" / "data").iterdir():
        file.unlink()
    asked: list[Callable[[Warehouse], object]] = [
        lambda fresh: fresh.query("SELECT model, started_at FROM steps"),
        lambda fresh: fresh.query("SELECT * FROM steps LIMIT 3"),
        lambda fresh: fresh.query("SELECT prompt_ids FROM steps"),
        lambda fresh: fresh.steps(columns=["messages"]).read_all(),
    ]
    for ask in asked:
        with pytest.raises(StoreError, match="ask again"):
            ask(Warehouse.open(warehouse.uri, create=False))


def test_what_is_written_anew_while_it_is_read_is_asked_for_again(
    filled: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `stepwell forget` does with all files in which something was deleted."""
    real, gone = Warehouse._query, list[int]()

    def query(self: Warehouse, sql: str, at: Any) -> Any:
        if len(gone) < 2:
            gone.append(1)
            raise FileGone.by(OSError("Not found: steps.lance/data/x.lance"))
        return real(self, sql, at)

    before = filled.query("SELECT step_id FROM steps ORDER BY 1")
    monkeypatch.setattr(Warehouse, "_query", query)
    assert filled.query("SELECT step_id FROM steps ORDER BY 1").equals(before)
    assert len(gone) == 2
