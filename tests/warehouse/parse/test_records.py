"""What a record means; what cannot be read is kept with its bytes and the reason."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from typing import Any

import orjson
import pytest

import stepwell.exchange as exchange_module
from stepwell.exchange import Context, NoStep, Request, Response, request_entry, response_entry
from stepwell.spool import LOST, Entry
from stepwell.warehouse import Warehouse
from stepwell.warehouse._parse import draft as draft_module
from stepwell.warehouse._parse import records as parse_module
from stepwell.warehouse._tables.table import LEDGER_KEY


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def user_said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


@pytest.fixture
def quarantine(warehouse: Warehouse, ingest: Callable[[], int]) -> Callable[[], list[dict[str, Any]]]:
    def read() -> list[dict[str, Any]]:
        ingest()
        rows: list[dict[str, Any]] = warehouse.query("SELECT * FROM quarantine ORDER BY sequence").to_pylist()
        return rows

    return read


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (Entry("x", "weird", body=b"\xff\x00"), "unknown kind of record 'weird'.*newer version"),
        (Entry("x", "step", body=b"not json"), "unexpected character|expected"),
        (Entry("x", "step", body=b'{"messages":[]}'), "response_ids: a step needs"),
        (Entry("x", "step", body=b'{"messages":[{"content":"q"}],"response":"a"}'), "messages: cannot be read as chat"),
        (Entry("x", "step", body=b'{"messages":[{"role":5}],"response":"a"}'), "messages"),
        (Entry("x", "feedback", body=b'{"step_id":"s"}'), "says nothing"),
        (Entry("x", "feedback", body=b'{"step_id":"s","reward":NaN}'), "."),
        (Entry("x", "feedback", body=b"[]"), "."),
        (Entry("x", "trajectory", body=b'{"trajectory_id":"t","state":"odd"}'), "state"),
        (Entry("x", "exchange.response", ref="gone"), "the request 'gone' that this answers is not in the spool"),
        (Entry("x", LOST), "the request None"),
        (Entry(LEDGER_KEY, "trajectory", body=b'{"trajectory_id":"t"}'), "keep for themselves"),
        (Entry("x", "step", body=orjson.dumps({"step_id": LEDGER_KEY, "messages": [], "response": "a"})), "keep for"),
        (Entry("x", "feedback", body=orjson.dumps({"feedback_id": LEDGER_KEY, "step_id": "s", "reward": 1})), "keep"),
        (
            Entry("x", "step", b"\xff", b'{"prompt_ids":[1],"response_ids":[2],"logprobs":[-1e39]}'),
            r"logprobs\[0\].*float32",
        ),
    ],
)
def test_what_cannot_be_read_is_kept(
    feed: Any, warehouse: Warehouse, quarantine: Any, entry: Entry, reason: str
) -> None:
    feed.put(entry)
    good = feed.step()
    [row] = quarantine()
    assert row["response_body"] == entry.body
    assert (row["dialect"], row["request_body"]) == (entry.kind, None)
    assert (row["producer"], row["sequence"]) == (feed.producer, 1)
    assert re.search(reason, row["reason"]), row["reason"]
    assert warehouse.query("SELECT step_id FROM steps").to_pylist() == [{"step_id": good}]
    assert warehouse.query("SELECT count(*) AS n FROM events")["n"].to_pylist() == [0]


def test_an_unreadable_exchange_keeps_both_sides(feed: Any, quarantine: Any) -> None:
    exchange = feed.request([user("q")], "t")
    feed.answer(exchange, b"<html>502</html>")
    [row] = quarantine()
    assert row["exchange_id"] == exchange
    assert (row["trajectory_id"], row["dialect"]) == ("t", "openai.chat")
    assert orjson.loads(row["request_body"])["messages"] == [user("q")]
    assert orjson.loads(row["request_head"])["method"] == "POST"
    assert row["response_body"] == b"<html>502</html>"
    assert orjson.loads(row["response_head"])["status"] == 200
    assert "is no JSON" in row["reason"]


def test_a_trajectory_lacks_the_call_that_claims_it_and_cannot_be_read(
    feed: Any, quarantine: Any, warehouse: Warehouse
) -> None:
    headers = [("x-claude-code-session-id", "s")]
    for name, answer in (("a", b"<html>502</html>"), ("b", b'{"choices":[{"message":{"content":"a"}}]}')):
        body = orjson.dumps({"model": "m", "messages": [user("q")]})
        asked = Request("POST", "https://llm.example/v1/chat/completions", headers, body, 0)
        feed.put(request_entry(name, asked, dialect="openai.chat"))
        feed.put(response_entry(name, Response(200, [], answer, "complete", 0)))
    feed.trajectory("claude-code:s", "completed")
    [row] = quarantine()
    assert (row["exchange_id"], row["trajectory_id"]) == ("a", "claude-code:s")
    assert warehouse.query("SELECT trajectory_id, state FROM trajectories").to_pylist() == [
        {"trajectory_id": "claude-code:s", "state": "incomplete"}
    ]


@pytest.mark.parametrize("head", [b"", b"\xff", b"[]", b'{"dialect":5,"trajectory_id":{},"headers":[]}'])
def test_a_damaged_head_costs_only_its_record(feed: Any, quarantine: Any, warehouse: Warehouse, head: bytes) -> None:
    feed.put(Entry("x", "exchange.request", head, b"asked", opens=True))
    feed.put(Entry("x.response", "exchange.response", head, b"answered", ref="x"))
    feed.exchange([user("q")])
    [row] = quarantine()
    assert (row["exchange_id"], row["request_body"], row["response_body"]) == ("x", b"asked", b"answered")
    assert row["dialect"] == "exchange.response"
    assert warehouse.query("SELECT count(*) AS n FROM steps")["n"].to_pylist() == [1]


def test_a_bug_in_a_parser_costs_only_its_record(
    feed: Any, quarantine: Any, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = exchange_module.parse

    def buggy(exchange: Any) -> Any:
        if b"poison" in exchange.request.body:
            raise ZeroDivisionError(" ".join(("a", "bug")))
        return real(exchange)

    monkeypatch.setattr(parse_module, "parse", buggy)
    before, bad, after = (feed.exchange([user(text)]) for text in ("one", "poison", "two"))
    with caplog.at_level(logging.ERROR):
        [row] = quarantine()
    assert row["exchange_id"] == bad.removesuffix(".0")
    assert row["reason"] == "parsing failed: ZeroDivisionError: a bug"
    assert "ZeroDivisionError" in caplog.text and "in buggy" in caplog.text
    assert "a bug" not in caplog.text, "only the table has the error's words, redacted"
    found = warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist()
    assert sorted(found) == sorted([before, after])


def test_a_record_is_taken_whole_or_not_at_all(
    feed: Any, reply: Any, quarantine: Any, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second choice cannot be read: the first is no step either, since the exchange will be parsed again."""
    real = draft_module.draft

    def picky(step: Any, *args: Any, **kwargs: Any) -> Any:
        if step.step_id.endswith(".1"):
            raise ZeroDivisionError
        return real(step, *args, **kwargs)

    monkeypatch.setattr(parse_module, "draft", picky)
    exchange = feed.request([user("q")])
    feed.answer(exchange, reply(exchange, [1], [("a", [2]), ("b", [3])]))
    assert len(quarantine()) == 1
    assert warehouse.query("SELECT * FROM steps").num_rows == 0


def test_a_request_alone_is_nothing_yet(feed: Any, quarantine: Any, warehouse: Warehouse, reply: Any) -> None:
    exchange = feed.request([user("q")])
    assert quarantine() == []
    assert warehouse.query("SELECT * FROM steps").num_rows == 0
    feed.answer(exchange, reply(exchange, [1], [("a", [2])]))
    assert quarantine() == []
    assert warehouse.query("SELECT step_id FROM steps")["step_id"].to_pylist() == [f"{exchange}.0"]


def test_a_steps_reward_becomes_an_event(feed: Any, ingest: Any, warehouse: Warehouse) -> None:
    longest = "s" * 256
    feed.step(step_id=longest, reward=0.5)
    ingest()
    [event] = warehouse.query("SELECT kind, target_kind, target_id, name, value FROM events").to_pylist()
    assert event == {"kind": "reward", "target_kind": "step", "target_id": longest, "name": "reward", "value": 0.5}
    assert warehouse.query("SELECT step_reward FROM steps")["step_reward"].to_pylist() == [0.5]


@pytest.mark.parametrize("context", [None, Context("r1", [user_said("hi")], None, "response:r0")])
def test_what_is_no_step_is_no_fault_either(
    feed: Any, quarantine: Any, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, context: Context | None
) -> None:
    def no_step(_: Any) -> Any:
        raise NoStep("a warm-up", context)

    monkeypatch.setattr(parse_module, "parse", no_step)
    exchange = feed.exchange([user("q")], trajectory="t").removesuffix(".0")
    assert quarantine() == []
    assert warehouse.query("SELECT * FROM steps").num_rows == 0
    events = warehouse.query("SELECT event_id, kind, target_kind, target_id, payload FROM events").to_pylist()
    if context is None:
        assert events == []
        return
    [event] = events
    assert event["event_id"] == f"{exchange}.context"
    assert (event["kind"], event["target_kind"], event["target_id"]) == ("context", "response", "r1")
    assert orjson.loads(event["payload"]) == {
        "messages": [user_said("hi")],
        "tools": None,
        "continues": "response:r0",
        "trajectory_id": "t",
    }


def test_what_the_exchange_says_of_itself_is_the_steps(
    feed: Any, ingest: Any, warehouse: Warehouse, reply: Any
) -> None:
    headers = {
        "x-stepwell-trajectory": "mine",
        "x-stepwell-prompt": "task",
        "x-stepwell-group": "g",
        "x-stepwell-split": "eval",
        "x-stepwell-policy-version": "3",
        "x-stepwell-meta-env": "dev",
    }
    for name, trajectory in (("a", None), ("b", "run")):
        body = orjson.dumps({"model": "m", "messages": [user("q")]})
        asked = Request("POST", "https://llm.example/v1/chat/completions", list(headers.items()), body, 0)
        feed.put(request_entry(name, asked, dialect="openai.chat", trajectory_id=trajectory, engine="vllm"))
        feed.put(response_entry(name, Response(200, [], reply(name, [1], [("a", [2])]), "complete", 0)))
    ingest()
    columns = "trajectory_id, prompt_id, group_id, split, policy_version, metadata"
    rows = warehouse.query(f"SELECT {columns} FROM steps ORDER BY step_id").to_pylist()
    said = {"prompt_id": "task", "group_id": "g", "split": "eval", "policy_version": 3, "metadata": '{"env":"dev"}'}
    assert rows == [{"trajectory_id": "mine", **said}, {"trajectory_id": "run", **said}]


def test_submitted_messages_take_either_form(feed: Any, ingest: Any, warehouse: Warehouse) -> None:
    canonical = {"role": "user", "content": [{"type": "text", "text": "q"}]}
    feed.step(step_id="plain", messages=[user("q")])
    feed.step(step_id="canonical", messages=[canonical])
    ingest()
    both = warehouse.query("SELECT messages, content_hash FROM steps").to_pylist()
    assert both[0] == both[1]
    assert orjson.loads(both[0]["messages"]) == [canonical]
