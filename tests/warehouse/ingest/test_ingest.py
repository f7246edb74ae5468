"""Rounds: several spools, duplicates, lost requests, dead producers, and the limits of one round."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import SpoolError, StoreError
from stepwell.spool import SpoolReader, read_cursor
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._ingest import intake as intake_module
from stepwell.warehouse._ingest import round as round_module


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def step_ids(warehouse: Warehouse) -> list[str]:
    ids: list[str] = warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist()
    return sorted(ids)


def test_nothing_new_is_no_commit(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> None:
    feed.step()
    assert ingest() == 1
    versions = {name: table.dataset.latest_version for name, table in warehouse.tables.items()}
    assert ingest() == 0
    assert {name: table.dataset.latest_version for name, table in warehouse.tables.items()} == versions


def test_everything_of_several_spools(anywhere: Any, new_feed: Any, spools: Path, drained: Any) -> None:
    feeds = [new_feed(name) for name in ("one", "two", "three")]
    expected = []
    for number in range(4):
        for feed in feeds:
            expected.append(feed.exchange([user(f"{feed.producer} {number}")]))
            feed.feedback(step_id=expected[-1], reward=number)
    worker = Ingest(anywhere.open(), spools)
    assert drained(worker) == 3 * 4 * 3
    warehouse = anywhere.open()
    assert step_ids(warehouse) == sorted(expected)
    assert warehouse.query("SELECT sum(step_reward) AS sum FROM steps")["sum"].to_pylist() == [3 * (0 + 1 + 2 + 3)]
    assert warehouse.marks() == {feed.producer: 12 for feed in feeds}


def test_rows_say_where_they_come_from(feed: Any, ingest: Any, warehouse: Warehouse) -> None:
    feed.step(step_id="a")
    ingest()
    feed.step(step_id="b")
    ingest()
    rows = warehouse.query('SELECT step_id, producer, sequence, "commit" FROM steps ORDER BY step_id').to_pylist()
    assert rows == [
        {"step_id": "a", "producer": feed.producer, "sequence": 1, "commit": 1},
        {"step_id": "b", "producer": feed.producer, "sequence": 2, "commit": 2},
    ]
    columns = ["commit", "producer", "after", "sequence"]
    commits = warehouse.tables["commits"].dataset.to_table(columns=columns, filter="ledger IS NULL").to_pylist()
    assert sorted(tuple(row.values()) for row in commits) == [(1, feed.producer, 0, 1), (2, feed.producer, 1, 2)]


@pytest.mark.parametrize("between", ["same round", "later round", "after a restart"])
def test_a_submitted_id_is_one_step(
    new_feed: Any, ingest: Any, restarted: Any, warehouse: Warehouse, between: str
) -> None:
    """The first stands, its reward too; also for those that name a dialect."""
    take = restarted if between == "after a restart" else ingest
    one, two = new_feed("1"), new_feed("2")
    one.step(step_id="x", response="first", reward=1.0)
    one.step(step_id="y", response="first", dialect="openai.chat")
    if between != "same round":
        take()
    two.step(step_id="x", response="second", reward=2.0)
    two.step(step_id="y", response="second", dialect="openai.chat")
    two.feedback(feedback_id="f", step_id="x", reward=5.0, name="other")
    take()
    one.feedback(feedback_id="f", step_id="x", reward=7.0, name="other")
    take()
    rows = warehouse.query("SELECT step_id, response, step_reward FROM steps ORDER BY step_id").to_pylist()
    assert [row["step_id"] for row in rows] == ["x", "y"]
    texts = [json.loads(row["response"])["content"][0]["text"] for row in rows]
    if between != "same round":  # within one, which spool is read first is nobody's business
        assert texts == ["first", "first"]
        assert rows[0]["step_reward"] == 1.0 + 5.0
    assert warehouse.query("SELECT count(*) AS n FROM events")["n"].to_pylist() == [2]


def test_a_lost_request_becomes_an_aborted_step(new_feed: Any, ingest: Any, warehouse: Warehouse) -> None:
    dead = new_feed("proxy")
    exchange = dead.request([user("q")], "t")
    ingest()
    assert warehouse.query("SELECT * FROM steps").num_rows == 0, "its producer lives: the answer may still come"
    dead.close()
    ingest()
    [step] = warehouse.query("SELECT step_id, status, trainable, untrainable_reason FROM steps").to_pylist()
    assert (step["step_id"], step["status"], step["trainable"]) == (f"{exchange}.0", "aborted", False)
    assert "ended before the answer was recorded" in step["untrainable_reason"]


def test_a_dead_producers_spool_is_finished(new_feed: Any, ingest: Any, warehouse: Warehouse) -> None:
    dead = new_feed("proxy")
    done = dead.exchange([user("a")])
    dead.close()
    again = new_feed("proxy")
    assert again.producer == dead.producer
    more = again.exchange([user("b")])
    ingest()
    assert step_ids(warehouse) == sorted([done, more])


def test_the_cursor_lets_producers_drop_what_is_stored(
    feed: Any, ingest: Any, restarted: Any, spools: Path, warehouse: Warehouse
) -> None:
    step = feed.exchange([user("a")])
    waiting = feed.request([user("b")])
    ingest()
    cursor = read_cursor(spools, feed.producer)
    assert cursor == 3
    assert feed.spool.trim(cursor) == 2, "the request that waits for its answer is kept"
    with SpoolReader(feed.spool.path) as reader:
        assert [record.id for record in reader.read(0)] == [waiting]
    feed.answer(waiting, b'{"id":"r","choices":[{"message":{"content":"late"}}]}')
    restarted()
    assert step_ids(warehouse) == sorted([step, f"{waiting}.0"])


def test_a_lost_cursor_file_loses_and_doubles_nothing(
    feed: Any, ingest: Any, restarted: Any, spools: Path, warehouse: Warehouse
) -> None:
    step = feed.exchange([user("a")])
    ingest()
    (spools / "committed.json").unlink()
    assert restarted() == 0
    assert step_ids(warehouse) == [step]


def test_a_cursor_that_cannot_be_written_is_only_a_warning(
    feed: Any, ingest: Any, spools: Path, warehouse: Warehouse, caplog: pytest.LogCaptureFixture
) -> None:
    (spools / "committed.json").mkdir()
    step = feed.exchange([user("a")])
    with caplog.at_level(logging.WARNING):
        assert ingest() == 2
    assert "cannot say in" in caplog.text
    assert step_ids(warehouse) == [step]


def test_a_round_is_limited_and_fair(
    new_feed: Any, warehouse: Warehouse, spools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MAX_RECORDS", 10)
    busy, quiet = new_feed("busy"), new_feed("quiet")
    for number in range(35):
        busy.step(step_id=f"busy{number}")
    quiet.step(step_id="quiet")
    worker = Ingest(warehouse, spools)
    counts = [worker.run_once(), worker.run_once()]
    assert max(counts) <= 10
    assert "quiet" in step_ids(warehouse), "the busy one comes first in every second round only"
    while count := worker.run_once():
        counts.append(count)
    assert sum(counts) == 36
    assert max(counts) <= 10
    assert len(step_ids(warehouse)) == 36


def test_a_round_is_limited_in_bytes(
    new_feed: Any, warehouse: Warehouse, spools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MAX_BYTES", 50_000)
    for name in ("a", "b"):
        feed = new_feed(name)
        for _ in range(10):
            feed.step(response="x" * 20_000)
    worker = Ingest(warehouse, spools)
    counts = []
    while count := worker.run_once():
        counts.append(count)
    assert sum(counts) == 20
    assert max(counts) <= 4, "three fill a round; the record that fills it is taken still"


def test_answers_find_requests_of_earlier_rounds(
    feed: Any, reply: Any, warehouse: Warehouse, ingest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MAX_RECORDS", 1)
    exchanges = [feed.request([user(f"q{n}")]) for n in range(3)]
    for exchange in reversed(exchanges):
        feed.answer(exchange, reply(exchange, [1], [("a", [2])]))
    assert ingest() == 6
    assert step_ids(warehouse) == sorted(f"{exchange}.0" for exchange in exchanges)


def test_a_damaged_spool_does_not_stop_the_others(
    new_feed: Any, ingest: Any, warehouse: Warehouse, spools: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (spools / "broken.db").write_bytes(b"this is no database, and never was one" * 100)
    step = new_feed("fine").exchange([user("a")])
    with caplog.at_level(logging.WARNING):
        ingest()
    assert step_ids(warehouse) == [step]
    assert "broken.db" in caplog.text


def test_a_spool_that_fails_in_the_middle_is_taken_later_and_once(
    new_feed: Any, reply: Any, ingest: Any, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake_module, "MAX_RECORDS", 3)
    feed = new_feed("shaky")
    waiting = feed.request([user("a")])
    made = [feed.exchange([user("b")])]
    ingest()
    made.append(feed.exchange([user("c")]))
    made.append(feed.answer(waiting, reply(waiting, [1], [("late", [2])])))
    real, failures = SpoolReader.get, [1]

    def get(self: SpoolReader, id: str) -> Any:
        if failures:
            failures.pop()
            raise SpoolError("disk hiccup") from sqlite3.OperationalError()
        return real(self, id)

    monkeypatch.setattr(SpoolReader, "get", get)
    assert ingest() == 0
    assert ingest() == 3
    assert Counter(step_ids(warehouse)) == Counter(made)


def test_a_store_that_fails_while_reading_back_is_a_store_error(
    feed: Any, warehouse: Warehouse, spools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lance raises OSError; the process goes on only after what it knows."""
    worker = Ingest(warehouse, spools)
    feed.step(step_id="a", trajectory_id="t")
    worker.run_once()

    def fail(*_: Any) -> set[str]:
        raise OSError("connection reset")

    feed.step(step_id="b", trajectory_id="t")
    with monkeypatch.context() as patch:
        patch.setattr(round_module, "matching", fail)
        with pytest.raises(StoreError, match="connection reset"):
            worker.run_once()
    assert worker.run_once() == 1
    assert step_ids(warehouse) == ["a", "b"]
