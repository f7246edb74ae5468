"""The same question at different versions."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord, StoreError
from stepwell.warehouse import Warehouse
from stepwell.warehouse._tables.schema import EVENTS, STEPS


@pytest.fixture
def told(feed: Any, new_feed: Any, warehouse: Warehouse, ingest: Callable[[], int]) -> Warehouse:
    """Commit 1: a step; 2: its reward, and an opening through somebody else; 3: another reward, another step, an attempt's label."""
    other = new_feed("gateway")
    feed.step(step_id="a", trajectory_id="t")
    ingest()
    feed.feedback(step_id="a", reward=1.0)
    other.trajectory("t", group_id="g", split="eval", policy_version=3)
    ingest()
    feed.feedback(step_id="a", reward=-1.0)
    feed.step(step_id="b", trajectory_id="t")
    other.trajectory("t", "completed", marks={feed.producer: 3})
    ingest()
    return warehouse


RESOLVED = 'SELECT step_id, group_id, split, step_reward, "commit" FROM steps ORDER BY step_id'


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (0, []),
        (1, [("a", None, "train", None, 1)]),
        (2, [("a", "g", "eval", 1.0, 1)]),
        (3, [("a", "g", "eval", -1.0, 1), ("b", "g", "eval", None, 3)]),
        (None, [("a", "g", "eval", -1.0, 1), ("b", "g", "eval", None, 3)]),
    ],
)
def test_what_was_known_then(told: Warehouse, at: int | None, expected: list[tuple[Any, ...]]) -> None:
    assert [tuple(row.values()) for row in told.query(RESOLVED, at=at).to_pylist()] == expected
    ids = [row[0] for row in expected]
    read = told.steps(columns=["step_id", "group_id", "split", "step_reward", "commit"], at=at).read_all()
    assert [tuple(row.values()) for row in read.to_pylist()] == expected
    whole = told.whole(["b", "a"], ["step_id", "split"], at=at)
    assert whole["step_id"].to_pylist() == [name for name in ("b", "a") if name in ids]


def test_states_then(told: Warehouse) -> None:
    states = [told.query("SELECT state, steps FROM trajectories", at=at).to_pylist() for at in range(4)]
    assert states == [
        [],
        [{"state": "open", "steps": 1}],
        [{"state": "open", "steps": 1}],
        [{"state": "completed", "steps": 2}],
    ]


def test_a_version_by_any_name(told: Warehouse) -> None:
    made = told.datasets.create("d", "step_id = 'a'", at=2)
    assert made.at_commit == told.version("d@1") == told.version(2) == 2
    assert told.version() == told.version(datetime.now(UTC)) == 3
    assert told.version("2020-01-01") == 0
    assert told.query("SELECT step_reward FROM steps", at="d@1").to_pylist() == [{"step_reward": 1.0}]
    with pytest.raises(StoreError, match="no dataset e@1"):
        told.query("SELECT 1", at="e@1")
    for at in (4, "tomorrow"):
        with pytest.raises(InvalidRecord, match=r"^at: "):
            told.steps(at=at)


def test_rows_of_a_commit_in_progress_are_in_no_view(told: Warehouse, feed: Any) -> None:
    """They are in the tables before anybody can say that they are committed."""
    known, unknown = feed.producer, "nobody"
    step = told.tables["steps"].dataset.to_table(filter="step_id = 'a'").to_pylist()[0]
    steps = [{**step, "step_id": f"x{name}", "producer": name, "sequence": 99} for name in (known, unknown)]
    told.tables["steps"].commit(pa.Table.from_pylist(steps, schema=STEPS.schema), {})
    event = {"kind": "reward", "target_kind": "step", "target_id": "a", "name": "reward", "value": 7.0}
    events = [{**event, "event_id": f"e{name}", "producer": name, "sequence": 99} for name in (known, unknown)]
    told.tables["events"].commit(pa.Table.from_pylist(events, schema=EVENTS.schema), {})
    assert [row["step_id"] for row in told.query(RESOLVED).to_pylist()] == ["a", "b"]
    assert told.query("SELECT step_reward FROM steps WHERE step_id = 'a'").to_pylist() == [{"step_reward": -1.0}]
    assert told.query("SELECT event_id FROM events WHERE value = 7").num_rows == 0
    assert told.steps(columns=["step_id"]).read_all().num_rows == 2
    assert told.whole(["xnobody", "a"], ["step_id"])["step_id"].to_pylist() == ["a"]


def test_a_stream_stays_at_its_version(told: Warehouse, feed: Any, restarted: Callable[[], int]) -> None:
    stream = told.steps(columns=["step_id", "messages"])
    feed.step(step_id="c", trajectory_id="t")
    restarted()
    told.maintain()
    assert stream.read_all()["step_id"].to_pylist() == ["a", "b"]
    assert told.steps(columns=["step_id"]).read_all().num_rows == 3


def test_a_column_that_is_not_resolved_is_not_shown_as_stored(told: Warehouse) -> None:
    """Whatever way a query has to name a column, it gets the resolved one."""
    for sql in (
        'SELECT "SPLIT" AS x FROM steps',
        "SELECT s.split AS x FROM steps AS s",
        "SELECT split AS x FROM (FROM steps)",
        "SELECT x FROM (SELECT steps FROM steps) q, LATERAL (SELECT q.steps.split AS x)",
        "SELECT x FROM (SELECT COLUMNS('spl.*') AS x FROM steps)",
        "SELECT struct_extract(s, 'split') AS x FROM steps s",
    ):
        assert told.query(sql)["x"].to_pylist() == ["eval", "eval"], sql


def test_many_producers(told: Warehouse, new_feed: Any, spools: Path, ingest: Callable[[], int]) -> None:
    for number in range(12):
        new_feed(f"it's {number}").step(step_id=f"n{number:02}")
    ingest()
    assert told.query("SELECT count(*) AS n FROM steps").to_pylist() == [{"n": 14}]
    assert told.query("SELECT count(*) AS n FROM steps", at=3).to_pylist() == [{"n": 2}]
