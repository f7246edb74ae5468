"""Raw traffic: which calls are kept as they were, redacted, bounded, where they belong, and for whom they do not count."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from stepwell.exchange import Response, response_entry
from stepwell.warehouse import Ingest, Warehouse
from stepwell.warehouse._ingest.tombstones import bury
from stepwell.warehouse._parse.raw import Raw
from stepwell.warehouse._redact.rules import RedactConfig, Redactor, RedactRule

Rows = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def rows(warehouse: Warehouse, spools: Path, drained: Any) -> Rows:
    """Everything in `exchanges` by id, after an ingest that keeps what it is told."""

    def take_in(raw: Raw, *rules: RedactRule) -> dict[str, dict[str, Any]]:
        drained(Ingest(warehouse, spools, Redactor(RedactConfig(rules=rules)), raw))
        return {row["exchange_id"]: row for row in warehouse.query("SELECT * FROM exchanges").to_pylist()}

    return take_in


@pytest.fixture
def calls(feed: Any) -> Any:
    """A call that went well, one that the provider refused, one that cannot be read, and one that asks for no generation."""
    feed.exchange([{"role": "user", "content": "fine"}], trajectory="t", id="good")
    feed.answer(feed.request([{"role": "user", "content": "much"}], "t", id="busy"), b'{"error":{"message":"x"}}', 429)
    feed.answer(feed.request([{"role": "user", "content": "odd"}], id="odd"), b"<html>")
    return feed


@pytest.mark.parametrize(
    ("kept", "there"), [("errors", {"busy", "odd"}), ("all", {"good", "busy", "odd"}), ("none", {"odd"})]
)
def test_what_is_kept(calls: Any, rows: Rows, warehouse: Warehouse, kept: Any, there: set[str]) -> None:
    found = rows(Raw(kept))
    assert set(found) == there
    quarantined = warehouse.query("SELECT exchange_id FROM quarantine")["exchange_id"].to_pylist()
    assert quarantined == ["odd"], "what was read is no quarantine"
    assert {id_ for id_, row in found.items() if row["reason"] is None} == there - {"odd"}
    assert warehouse.query("SELECT step_id FROM steps").num_rows == 2


def test_the_bytes_are_those_of_the_wire(calls: Any, rows: Rows) -> None:
    row = rows(Raw("all"))["busy"]
    assert row["response_body"] == b'{"error":{"message":"x"}}'
    assert orjson.loads(row["request_body"])["messages"] == [{"role": "user", "content": "much"}]
    assert orjson.loads(row["response_head"])["status"] == 429
    assert orjson.loads(row["request_head"])["method"] == "POST"
    assert (row["dialect"], row["trajectory_id"]) == ("openai.chat", "t")


def test_nothing_of_what_cannot_be_read_is_kept_where_nothing_is_to_be(calls: Any, rows: Rows) -> None:
    row = rows(Raw("none"))["odd"]
    assert (row["request_body"], row["response_body"]) == (None, None)
    assert "its bytes are not kept" in row["reason"]
    assert rows(Raw("none"))["odd"]["request_head"] is not None


def test_a_call_of_nobody_is_where_its_step_was_put(feed: Any, rows: Rows, warehouse: Warehouse) -> None:
    feed.exchange([{"role": "user", "content": "q"}], id="one")
    row = rows(Raw("all"))["one"]
    (home,) = warehouse.query("SELECT trajectory_id FROM steps")["trajectory_id"].to_pylist()
    assert home is not None and row["trajectory_id"] == home


def test_a_call_without_a_generation_is_traffic_too(feed: Any, rows: Rows, warehouse: Warehouse) -> None:
    request = feed.request([{"role": "user", "content": "q"}], "t", id="lost")
    feed.close()
    assert rows(Raw("errors"))[request]["response_body"] == b""
    assert warehouse.query("SELECT status FROM steps")["status"].to_pylist() == ["aborted"]


def test_a_kept_call_is_no_gap(calls: Any, rows: Rows, warehouse: Warehouse) -> None:
    """What is in quarantine makes its trajectory incomplete; what is kept besides its step does not."""
    calls.trajectory("t", "completed")
    rows(Raw("all"))
    for _ in range(2):
        assert warehouse.query("SELECT state FROM trajectories WHERE trajectory_id = 't'").to_pylist() == [
            {"state": "completed"}
        ]
        warehouse.summarise()


def test_a_large_body_is_left_out_and_said(feed: Any, rows: Rows) -> None:
    feed.exchange([{"role": "user", "content": "x" * 4000}], "y", id="big")
    row = rows(Raw("all", max_bytes=3000))["big"]
    assert row["request_body"] is None and row["response_body"] is not None
    note = orjson.loads(row["response_head"])["note"]
    assert "request_body is left out" in note and "more than ingest.raw_max_bytes" in note


SECRET = RedactRule(name="key", pattern="sk-[a-z]+", replace="[gone]")


def test_rules_hold_for_raw_bodies(feed: Any, rows: Rows, warehouse: Warehouse) -> None:
    exchange = feed.request([{"role": "user", "content": "my key is sk-abc"}], id="one")
    body = gzip.compress(b'{"error":{"message":"no sk-abc"}}')
    got = Response(400, [("content-type", "application/json"), ("content-encoding", "gzip")], body, "complete", 1)
    feed.put(response_entry(exchange, got))
    row = rows(Raw("errors"), SECRET)["one"]
    assert b"[gone]" in row["request_body"] and b"[gone]" in row["response_body"]
    assert b"sk-abc" not in row["request_body"] + row["response_body"]
    assert orjson.loads(row["response_head"])["note"] == "redacted by key"
    assert row["reason"] is None and warehouse.query("SELECT * FROM quarantine").num_rows == 0


def test_a_rule_that_cannot_look_leaves_nothing(feed: Any, rows: Rows) -> None:
    """The stream says it in pieces: no line of it shows what is to go."""
    pieces = [
        orjson.dumps({"id": "c", "choices": [{"index": 0, "delta": {"content": some}}]}) for some in ("sk-", "abc")
    ]
    exchange = feed.request([{"role": "user", "content": "q"}], id="one", stream=True)
    got = Response(200, [("content-type", "text/event-stream")], b"", "complete", 1)
    body = b"".join(b"data: " + piece + b"\n\n" for piece in pieces) + b"data: [DONE]\n\n"
    feed.put(response_entry(exchange, Response(got.status, got.headers, body, got.end, got.at_ns)))
    row = rows(Raw("all"), SECRET)["one"]
    assert row["response_body"] is None and "withheld" in orjson.loads(row["response_head"])["note"]


def test_what_was_forgotten_does_not_come_back_raw(calls: Any, rows: Rows, warehouse: Warehouse) -> None:
    bury(warehouse.tables["forgotten"], {"step": ["good.0"], "exchange": ["busy"]})
    assert set(rows(Raw("all"))) == {"odd"}


def test_nor_what_belongs_to_a_trajectory_that_was(feed: Any, rows: Rows, warehouse: Warehouse) -> None:
    feed.exchange([{"role": "user", "content": "q"}], "a", id="first")
    rows(Raw("none"))
    (home,) = warehouse.query("SELECT trajectory_id FROM steps")["trajectory_id"].to_pylist()
    said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}, {"role": "user", "content": "r"}]
    feed.exchange(said, id="second")
    # The step goes on in a trajectory of which only linking finds out that it is the forgotten one.
    bury(warehouse.tables["forgotten"], {"trajectory": [home]})
    assert rows(Raw("all")) == {}
