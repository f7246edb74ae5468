"""Faults on the way from exchanges to training data that others have reported: through real spools and ingest into views and batches."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import orjson
import pytest
import zstandard

from stepwell.exchange import End, Request, Response, request_entry, response_entry
from stepwell.reader import GroupBatch, read_groups
from stepwell.spool import Entry
from stepwell.warehouse import Warehouse


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def said(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


Rows = Callable[[], dict[str, dict[str, Any]]]


@pytest.fixture
def steps(warehouse: Warehouse, ingest: Callable[[], int]) -> Rows:
    def read() -> dict[str, dict[str, Any]]:
        ingest()
        return {row["step_id"]: row for row in warehouse.query("SELECT * FROM steps").to_pylist()}

    return read


Sampled = tuple[list[int], list[int]]


@pytest.fixture
def batch(warehouse: Warehouse, ingest: Callable[[], int]) -> Callable[[], GroupBatch]:
    """What a trainer gets of all that is trainable."""

    def read() -> GroupBatch:
        ingest()
        warehouse.datasets.create("all", "trainable")
        (group,) = read_groups(warehouse, "all", 1, advantage="none")
        return group

    return read


def targets(group: GroupBatch) -> list[int]:
    """The id of every loss term."""
    made = group.batch
    return sorted(int(made.target_id[place]) for place in made.occurrence_target)


numbers = itertools.count()


def call(
    feed: Any,
    body: bytes,
    answer: bytes,
    *headers: tuple[str, str],
    dialect: str = "openai.chat",
    method: str = "POST",
    status: int | None = 200,
    end: End = "complete",
    engine: str | None = "vllm",
    kind: str = "application/json",
) -> str:
    """An exchange of any dialect in trajectory `t`; the id of its first step."""
    id_ = f"y{next(numbers)}"
    asked = Request(method, "https://llm.example/v1/x", list(headers), body, 0)
    feed.put(request_entry(id_, asked, dialect=dialect, trajectory_id="t", engine=engine))
    feed.put(response_entry(id_, Response(status, [("content-type", kind)], answer, end, 0)))
    return f"{id_}.0"


# --- attempts -----------------------------------------------------------------------------------------------------------------------

CLAUDE: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "c", "content": [],
                                          "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half "}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "done"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
]  # fmt: skip


def claude(count: int) -> bytes:
    return b"".join(b"event: %s\ndata: %s\n\n" % (str(e["type"]).encode(), orjson.dumps(e)) for e in CLAUDE[:count])


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("end", ["client_disconnect", "upstream_error", "complete"])
def test_of_a_stream_that_was_cut_and_asked_for_again_one_attempt_counts(
    feed: Any, steps: Rows, warehouse: Warehouse, header: bool, end: End
) -> None:
    """In another dialect than chat, and whoever cut it; `complete`: the server ended in order without its last event."""
    asked = {"model": "c", "max_tokens": 9, "messages": [user("q")]}
    later = {**asked, "messages": [user("q"), said("half done"), user("on")]}
    retries = [[("x-stainless-retry-count", str(n))] if header else [] for n in range(2)]
    dialect, kind = "anthropic.messages", "text/event-stream"
    first = call(feed, orjson.dumps(asked), claude(3), *retries[0], dialect=dialect, kind=kind, end=end)
    second = call(feed, orjson.dumps(asked), claude(7), *retries[1], dialect=dialect, kind=kind)
    third = call(feed, orjson.dumps(later), claude(7), dialect=dialect, kind=kind)
    found = steps()
    assert found[first]["call_id"] == found[second]["call_id"] != found[third]["call_id"]
    assert [found[step]["superseded_by"] for step in (first, second, third)] == [second, None, None]
    assert found[first]["status"] == ("client_disconnect" if end == "client_disconnect" else "truncated")
    assert not found[first]["trainable"] and second in found[first]["untrainable_reason"]
    assert found[third]["parent_id"] == second
    assert "half " in str(found[first]["response"])


@pytest.mark.parametrize("used", [0, 1])
def test_an_attempt_that_nobody_used_gives_no_loss_term(
    feed: Any, reply: Callable[..., bytes], batch: Callable[[], GroupBatch], used: int
) -> None:
    """Both were answered whole, with ids: the one that the next turn repeats is the one that was used."""
    asked = orjson.dumps({"model": "m", "messages": [user("q")]})
    for retry in range(2):
        answer = reply(f"r{retry}", [1, 2], [(f"a{retry}", [10 + retry, 20 + retry])])
        call(feed, asked, answer, ("x-stainless-retry-count", str(retry)))
    talk = [user("q"), said(f"a{used}"), user("r")]
    call(
        feed, orjson.dumps({"model": "m", "messages": talk}), reply("r2", [1, 2, 10 + used, 20 + used, 3], [("b", [9])])
    )
    assert targets(batch()) == sorted([10 + used, 20 + used, 9])


# --- choices ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("used", [0, 1, 2])
def test_the_choice_that_a_later_request_repeats_is_its_parent(
    feed: Any, reply: Callable[..., bytes], steps: Rows, used: int
) -> None:
    choices = [(f"a{n}", [10 + n]) for n in range(3)]
    first = call(feed, orjson.dumps({"model": "m", "messages": [user("q")], "n": 3}), reply("r", [1], choices))
    talk = [user("q"), said(f"a{used}"), user("r")]
    second = call(feed, orjson.dumps({"model": "m", "messages": talk}), reply("s", [1, 10 + used, 2], [("b", [9])]))
    found = steps()
    assert found[second]["parent_id"] == first.removesuffix("0") + str(used)
    assert [row["trainable"] for row in found.values()] == [True] * 4  # samples side by side, none a failed attempt
    assert len({row["call_id"] for row in found.values()}) == 2


# --- sockets ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [b"", b'{"type":"response.created","response":{"id":"r0","object":"response"}}\n'])
def test_a_turn_that_falls_back_from_its_socket_is_one_call(feed: Any, steps: Rows, frames: bytes) -> None:
    """The socket stood, took the turn and broke; the client asks the same by POST."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    asked = {"model": "m", "instructions": "be brief", "input": [item]}
    message = {"type": "message", "id": "i", "role": "assistant", "content": [{"type": "output_text", "text": "ho"}]}
    whole = {"id": "r1", "object": "response", "status": "completed", "model": "m", "output": [message]}
    create = orjson.dumps({"type": "response.create", **asked})
    dialect, kind = "openai.responses", "application/x-ndjson"
    first = call(feed, create, frames, dialect=dialect, method="WEBSOCKET", status=101, end="upstream_error", kind=kind)
    second = call(feed, orjson.dumps({**asked, "stream": False}), orjson.dumps(whole), dialect=dialect)
    found = steps()
    assert found[first]["call_id"] == found[second]["call_id"]
    assert (found[first]["superseded_by"], found[first]["trainable"]) == (second, False)
    assert (found[second]["superseded_by"], found[second]["status"]) == (None, "ok")


# --- requests that cannot be read ---------------------------------------------------------------------------------------------------

UNREADABLE: dict[str, tuple[bytes, str, str]] = {
    "corrupt": (zstandard.compress(b'{"messages": []}')[:5] + b"\xff" * 20, "zstd", "cannot be decoded"),
    "no frame": (b'{"messages": []}', "zstd", "cannot be decoded"),
    "unknown": (b"x", "sdch", "unknown content-encoding 'sdch'"),
    "latin-1": ('{"messages": "ü"}'.encode("latin-1"), "", "is no JSON"),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_request_that_cannot_be_read_is_kept_with_its_reason(
    feed: Any, steps: Rows, warehouse: Warehouse, reply: Callable[..., bytes], name: str
) -> None:
    body, coding, reason = UNREADABLE[name]
    answer = reply("r", [1], [("a", [2])])
    call(feed, body, answer, *([("content-encoding", coding)] if coding else []))
    good = feed.exchange([user("q")], "a", "t")
    assert list(steps()) == [good]
    (row,) = warehouse.query("SELECT * FROM quarantine").to_pylist()
    assert "the request" in row["reason"] and reason in row["reason"]
    assert (row["request_body"], row["response_body"], row["trajectory_id"]) == (body, answer, "t")


# --- ids ----------------------------------------------------------------------------------------------------------------------------


def test_empty_ids_are_never_stored_as_data(feed: Any, steps: Rows, reply: Callable[..., bytes]) -> None:
    without = {"id": "r", "choices": [{"message": said("a"), "finish_reason": "stop"}]}
    empty = {**without, "prompt_token_ids": [], "choices": [{**without["choices"][0], "token_ids": []}]}  # type: ignore[dict-item]
    asked = orjson.dumps({"model": "m", "messages": [user("q")]})
    made = [call(feed, asked, orjson.dumps(body)) for body in (without, empty)]
    nothing_sampled = feed.step(step_id="s", trajectory_id="t", prompt_ids=[1, 2], response_ids=[], logprobs=[])
    found = steps()
    for step in made:
        assert (found[step]["prompt_length"], found[step]["response_ids"], found[step]["source"]) == (None, None, None)
        assert (found[step]["trainable"], found[step]["untrainable_reason"]) == (False, "the engine gave no token ids")
    assert (found[nothing_sampled]["trainable"], found[nothing_sampled]["untrainable_reason"]) == (
        False, "no token was sampled"
    )  # fmt: skip


def test_an_agent_that_made_no_call_has_a_trajectory_and_no_step(feed: Any, steps: Rows, warehouse: Warehouse) -> None:
    feed.trajectory("idle", prompt_id="p", group_id="g")
    feed.feedback(trajectory_id="idle", reward=0.5)
    feed.trajectory("idle", "completed", marks={})
    assert steps() == {}
    (row,) = warehouse.query("SELECT * FROM trajectories").to_pylist()
    assert (row["state"], row["steps"], row["trainable_steps"], row["trajectory_reward"]) == ("completed", 0, 0, 0.5)


@pytest.mark.parametrize("by", ["step_id", "response_id", "trajectory_id"])
@pytest.mark.parametrize("apart", [False, True])
def test_a_reward_that_comes_before_its_step_is_the_steps(
    feed: Any, new_feed: Callable[..., Any], steps: Rows, by: str, apart: bool
) -> None:
    """Attached by id: from another producer, and in an earlier round, as well."""
    target = {"step_id": "x1.0", "response_id": "chat-x1", "trajectory_id": "t"}[by]
    (new_feed("gateway") if apart else feed).feedback(**{by: target}, reward=0.25)
    if apart:
        steps()
    feed.exchange([user("other")], "a", "u", id="x0")
    step = feed.exchange([user("q")], "a", "t", id="x1")
    found = steps()
    column = "trajectory_reward" if by == "trajectory_id" else "step_reward"
    assert (found[step][column], found["x0.0"][column]) == (0.25, None)


def test_where_the_template_drops_a_thought_each_row_trains_its_own_ids(
    feed: Any, steps: Rows, batch: Callable[[], GroupBatch]
) -> None:
    """Prompt 1 and its answer agree with prompt 2 for one token beyond prompt 1: no length says what to mask."""
    prompt, sampled = list(range(100, 140)), [1, 2, 3, 4]
    later = [*prompt, 1, 4, 5, 6]
    first = feed.exchange([user("q")], "<think>\nlong\n</think>\n\n4", "t", ids=(prompt, sampled))
    second = feed.exchange([user("q"), said("4"), user("r")], "5", "t", ids=(later, [9, 8]))
    assert steps()[second]["parent_id"] == first
    group = batch()
    assert targets(group) == sorted([*sampled, 9, 8])
    assert len(group.batch.input_ids) < len(prompt) * 2 + len(sampled) + 8  # the rest is shared


def test_ids_as_served_are_the_truth_and_derived_ones_are_marked(
    feed: Any, steps: Rows, warehouse: Warehouse, batch: Callable[[], GroupBatch]
) -> None:
    """The same text in other ids: what a tokenizer makes of it never takes the place of what was sampled."""
    served = feed.exchange([user("q")], "the text", "t", ids=([1, 2, 3], [53122, 316]))
    derived = feed.step(trajectory_id="t", prompt_ids=[1, 2, 3], response_ids=[393, 30002], source="tokenizer:mine",
                        logprobs=[-1.0, -1.0])  # fmt: skip
    found = steps()
    assert (found[served]["source"], found[served]["trainable"]) == ("engine", True)
    assert (found[derived]["source"], found[derived]["trainable"]) == ("tokenizer:mine", False)
    assert "derived" in found[derived]["untrainable_reason"]
    whole = {
        row["step_id"]: row["response_ids"]
        for row in warehouse.steps(columns=["step_id", "response_ids"]).read_all().to_pylist()
    }
    assert whole == {served: [53122, 316], derived: [393, 30002]}
    assert targets(batch()) == [316, 53122]


def test_weights_that_change_are_known_step_by_step(feed: Any, steps: Rows, warehouse: Warehouse) -> None:
    """By the engine's own word; one answer that spans two is of neither, whatever the trajectory was declared to be."""
    feed.trajectory("t", policy_version=3)
    talk: list[dict[str, Any]] = [user("q")]
    made = []
    for turn, versions in enumerate(([7], [7, 9], [9], None)):
        choice = {"message": said(f"a{turn}"), "finish_reason": "stop", "token_ids": [turn]}
        choice |= {"weight_versions": versions} if versions else {}
        body = {"id": f"r{turn}", "model": "m", "prompt_token_ids": [1], "choices": [choice]}
        made.append(call(feed, orjson.dumps({"model": "m", "messages": talk}), orjson.dumps(body)))
        talk += [said(f"a{turn}"), user("go on")]
    found = steps()
    assert [found[step]["policy_version"] for step in made] == [7, None, 9, 3]
    assert [found[step]["trainable"] for step in made] == [True, False, True, True]
    assert found[made[1]]["untrainable_reason"] == "sampled by several policy versions: 7..9"
    (row,) = warehouse.query("SELECT policy_version_min, policy_version_max FROM trajectories").to_pylist()
    assert row == {"policy_version_min": 3, "policy_version_max": 9}


# --- rewards ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", '"nan"', '""', '"1"', "true", "false", "[1]", "{}"]
)
def test_a_reward_that_is_no_number_is_in_no_column(feed: Any, steps: Rows, warehouse: Warehouse, value: str) -> None:
    """Written to a spool by whatever program: kept aside with the reason, beside a step without a reward."""
    step = feed.step(step_id="s", trajectory_id="t")
    for kind, target in (("feedback", '"step_id":"s"'), ("step", '"messages":[],"response":"a"')):
        body = f'{{{target},"reward":{value}}}'.encode()
        feed.put(Entry(id=f"{kind}.bad", kind=kind, body=body))
    found = steps()
    assert list(found) == [step]
    assert (found[step]["step_reward"], found[step]["trajectory_reward"]) == (None, None)
    reasons = [row["reason"] for row in warehouse.query("SELECT reason FROM quarantine").to_pylist()]
    assert len(reasons) == 2 and all(reasons)
    assert warehouse.query("SELECT * FROM events").num_rows == 0


@pytest.mark.parametrize("body", ['{"step_id":"s","reward":null}', '{"step_id":"s"}'])
def test_a_reward_that_is_absent_is_none_and_not_zero(feed: Any, steps: Rows, warehouse: Warehouse, body: str) -> None:
    step = feed.step(step_id="s", trajectory_id="t")
    feed.put(Entry(id="feedback.none", kind="feedback", body=body.encode()))
    assert steps()[step]["step_reward"] is None
    (row,) = warehouse.query("SELECT reason FROM quarantine").to_pylist()
    assert "says nothing" in row["reason"]
