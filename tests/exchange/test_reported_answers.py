"""Faults of putting an answer together that others have reported: calls, usage, thoughts, choices, ids."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange import Exchange, Request, Response, parse
from stepwell.exchange._anthropic.dialect import AnthropicMessages
from stepwell.exchange._chat.dialect import OpenAIChat
from stepwell.sdk.records import Step

from .conftest import make_exchange, sse

Steps = Callable[..., Sequence[Step]]


def chunk(
    delta: dict[str, Any] | None = None, index: int = 0, reason: str | None = None, **more: Any
) -> dict[str, Any]:
    choice = {"index": index, "delta": delta or {}, "finish_reason": reason, **more}
    return {"id": "r", "model": "m", "choices": [choice]}


def parts_of(step: Step) -> list[dict[str, Any]]:
    assert step.response is not None
    parts: list[dict[str, Any]] = step.response["content"]
    return parts


def calls_of(step: Step) -> list[tuple[str, str, str]]:
    return [(part["id"], part["name"], part["arguments"]) for part in parts_of(step) if part["type"] == "tool_call"]


# --- calls without a number, or with one now and then -----------------------------------------------------------------------------

WANTED = [("c1", "wetter", '{"ort": "Zürich"}'), ("c2", "wetter", '{"ort": "東京"}'), ("c3", "zeit", "{}")]


@st.composite
def deltas_of_calls(draw: st.DrawFn) -> list[dict[str, Any]]:
    """The wanted calls in pieces. A call has its number in every piece, or in none; its id opens it and may be said again."""
    made: list[dict[str, Any]] = []
    numbered = draw(
        st.integers(0, 3)
    )  # the first ones have numbers, as where a router changes the provider in mid-answer
    for place, (id_, name, arguments) in enumerate(WANTED):
        cuts = sorted(draw(st.lists(st.integers(0, len(arguments)), max_size=3)))
        pieces = [arguments[a:b] for a, b in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
        number = {"index": place} if place < numbered else {}
        again = draw(st.booleans())
        for nth, piece in enumerate(pieces):
            opens = {"id": id_} if nth == 0 or again else {}
            named = {"name": name} if nth == 0 else {}
            made.append({**number, **opens, "type": "function", "function": {**named, "arguments": piece}})
    return made


@given(deltas_of_calls(), st.booleans())
def test_calls_with_and_without_a_number_survive_in_one_stream(deltas: list[dict[str, Any]], together: bool) -> None:
    groups = [deltas] if together else [[delta] for delta in deltas]
    body = sse(*(chunk({"tool_calls": group}) for group in groups), chunk(None, 0, "tool_calls"))
    (step,) = parse(make_exchange(body))
    assert (calls_of(step), step.finish_reason) == (WANTED, "tool_calls")


# --- usage without a choice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ["openai.chat", "openai.completions"])
@pytest.mark.parametrize("empty", [{"choices": []}, {"choices": None}, {}])
def test_usage_counts_where_there_is_no_choice(dialect: str, empty: dict[str, Any]) -> None:
    """Also before the first one, as Azure sends its filter's results, and after [DONE] nothing is missed."""
    said = {"delta": {"content": "ho"}} if dialect == "openai.chat" else {"text": "ho"}
    first = {"id": "", "model": "", "prompt_filter_results": [{"prompt_index": 0}], **empty}
    pieces = [{"id": "r", "model": "m", "choices": [{"index": 0, **said}]},
              {"id": "r", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", **({"text": ""} if "text" in said else {})}]},
              {"id": "r", "model": "m", **empty, "usage": {"completion_tokens": 1, "x": {"y": 2}}}]  # fmt: skip
    request = {"model": "asked", "messages": [{"role": "user", "content": "hi"}], "prompt": "hi"}
    asked = Request("POST", "http://llm/v1", [], json.dumps(request).encode(), 1)
    if dialect == "openai.completions":
        asked = Request("POST", "http://llm/v1", [], b'{"model": "asked", "prompt": "hi"}', 1)
    kind = [("content-type", "text/event-stream")]
    (step,) = parse(Exchange("x", dialect, asked, Response(200, kind, sse(first, *pieces), "complete", 2)))
    assert (step.usage, step.response_id, step.model) == ({"completion_tokens": 1, "x": {"y": 2}}, "r", "m")
    assert (step.status, parts_of(step)) == ("ok", [{"type": "text", "text": "ho"}])


# --- Anthropic: counters so far, thoughts in their order -----------------------------------------------------------------------


def claude(*events: dict[str, Any], asked: list[Any] | None = None) -> Step:
    body = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
    request = {"model": "claude", "max_tokens": 9, "messages": asked or [{"role": "user", "content": "hi"}]}
    sent = Request("POST", "https://api.anthropic.com/v1/messages", [], json.dumps(request).encode(), 1)
    answer = Response(200, [("content-type", "text/event-stream")], body, "complete", 2)
    (step,) = parse(Exchange("x", "anthropic.messages", sent, answer))
    return step


def start(**usage: Any) -> dict[str, Any]:
    message = {"id": "msg", "type": "message", "role": "assistant", "model": "claude", "content": [], "usage": usage}
    return {"type": "message_start", "message": message}


def end(reason: str = "end_turn", **usage: Any) -> Iterator[dict[str, Any]]:
    yield {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}
    yield {"type": "message_stop"}


USAGES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = {
    "so far": (
        {"input_tokens": 9, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7, "output_tokens": 1},
        [{"output_tokens": 5}, {"input_tokens": 9, "cache_read_input_tokens": 100, "output_tokens": 12}],
        {"input_tokens": 9, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7, "output_tokens": 12},
    ),
    "all at the end": (
        {"input_tokens": 0, "output_tokens": 0},
        [{"input_tokens": 31, "output_tokens": 4, "cache_read_input_tokens": 30}],
        {"input_tokens": 31, "output_tokens": 4, "cache_read_input_tokens": 30},
    ),
    "all at the beginning": (
        {"input_tokens": 31, "output_tokens": 4}, [{}], {"input_tokens": 31, "output_tokens": 4}
    ),
    "by kinds": (
        {"input_tokens": 3, "cache_creation": {"ephemeral_5m_input_tokens": 8}},
        [{"output_tokens": 2, "server_tool_use": {"web_search_requests": 1}}],
        {"input_tokens": 3, "cache_creation": {"ephemeral_5m_input_tokens": 8}, "output_tokens": 2,
         "server_tool_use": {"web_search_requests": 1}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", USAGES)
def test_the_last_value_of_each_counter_holds_and_nothing_is_added_up(name: str) -> None:
    first, later, usage = USAGES[name]
    deltas = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": counts} for counts in later]
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}}
    step = claude(start(**first), block, {"type": "content_block_stop", "index": 0}, *deltas, {"type": "message_stop"})
    assert step.usage == usage


def thought(index: int, pieces: Sequence[str], signature: Sequence[str]) -> Iterator[dict[str, Any]]:
    block = {"type": "thinking", "thinking": "", "signature": ""}
    yield {"type": "content_block_start", "index": index, "content_block": block}
    for piece in pieces:
        delta = {"type": "thinking_delta", "thinking": piece}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    for piece in signature:
        delta = {"type": "signature_delta", "signature": piece}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def whole(index: int, block: dict[str, Any], *deltas: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield {"type": "content_block_start", "index": index, "content_block": block}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


@pytest.mark.parametrize("signature", [["EqQBCk=="], ["Eq", "QBC", "k=="]])
def test_thoughts_between_calls_keep_their_order_and_their_signatures(signature: list[str]) -> None:
    """And go back to the provider as they came, or it refuses the next turn."""
    use = {"type": "tool_use", "id": "t1", "name": "wetter", "input": {}}
    step = claude(
        start(input_tokens=1),
        *thought(0, ["Erst ", "das 🤔"], signature),
        *whole(1, {"type": "redacted_thinking", "data": "SECRET=="}),
        *whole(2, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Moment"}),
        *thought(3, ["dann jenes"], ["Zw", "ei"]),
        *thought(4, [], ["nur", "Zeichen"]),
        *whole(5, use, {"type": "input_json_delta", "partial_json": '{"ort"'},
               {"type": "input_json_delta", "partial_json": ':"東京"}'}),
        *end("tool_use", output_tokens=3),
    )  # fmt: skip
    blocks = [
        {"type": "thinking", "thinking": "Erst das 🤔", "signature": "EqQBCk=="},
        {"type": "redacted_thinking", "data": "SECRET=="},
        {"type": "text", "text": "Moment"},
        {"type": "thinking", "thinking": "dann jenes", "signature": "Zwei"},
        {"type": "thinking", "thinking": "", "signature": "nurZeichen"},
        {"type": "tool_use", "id": "t1", "name": "wetter", "input": {"ort": "東京"}},
    ]
    dialect = AnthropicMessages()
    assert dialect.answer_of([step])["content"] == blocks
    assert [part["type"] for part in parts_of(step)] == [
        "reasoning",
        "reasoning",
        "text",
        "reasoning",
        "reasoning",
        "tool_call",
    ]
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": "?"},
    ]
    later = claude(start(), *whole(0, {"type": "text", "text": "a"}), *end(), asked=history)
    assert later.messages is not None and later.messages[1]["content"] == parts_of(step)
    assert dialect.request_of(later)["messages"][1]["content"] == blocks


# --- one thought under several names ------------------------------------------------------------------------------------------------

NAMES: dict[str, list[dict[str, Any]]] = {
    "reasoning_content": [{"reasoning_content": "erst "}, {"reasoning_content": "denken"}],
    "reasoning": [{"reasoning": "erst "}, {"reasoning": "denken"}],
    "both": [{"reasoning": piece, "reasoning_content": piece} for piece in ("erst ", "denken")],
    "details too": [
        {"reasoning": piece, "reasoning_details": [{"type": "reasoning.text", "text": piece, "format": "unknown"}]}
        for piece in ("erst ", "denken")
    ],
    "details alone": [
        {"reasoning_details": [{"type": "reasoning.text", "text": piece}]} for piece in ("erst ", "denken")
    ],
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_thought_is_one_whatever_its_name(name: str, streamed: bool) -> None:
    deltas = NAMES[name]
    message: dict[str, Any] = {"role": "assistant", "content": "42"}
    for delta in deltas:
        for key, value in delta.items():
            message[key] = message[key] + value if key in message else value
    pieces = sse(*map(chunk, deltas), chunk({"content": "42"}), chunk(None, 0, "stop"))
    plain = {"id": "r", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    (step,) = parse(make_exchange(pieces if streamed else plain))
    thoughts = [part for part in parts_of(step) if part["type"] == "reasoning"]
    assert "".join(part.get("text", "") for part in thoughts) == "erst denken"
    assert [part["text"] for part in parts_of(step) if part["type"] == "text"] == ["42"]
    rebuilt = OpenAIChat().answer_of([step])["choices"][0]["message"]
    assert {key for key in rebuilt if key.startswith("reasoning")} == {key for delta in deltas for key in delta}
    for key in ("reasoning", "reasoning_content"):
        assert rebuilt.get(key, "erst denken") == "erst denken"
    if "reasoning_details" in message:
        assert "".join(detail["text"] for detail in rebuilt["reasoning_details"]) == "erst denken"


# --- several choices -----------------------------------------------------------------------------------------------------------------


@given(st.randoms(use_true_random=False))
def test_choices_streamed_with_calls_each_keep_their_own(random: Any) -> None:
    """Pieces of the choices in any order among each other, each choice's in its own."""
    queues = []
    for index in range(3):
        pieces = [chunk({"content": f"w{index} "}, index), chunk({"content": "ü"}, index)]
        for number in range(index):
            call = {"index": number, "id": f"c{index}{number}", "function": {"name": "f", "arguments": ""}}
            pieces.append(chunk({"tool_calls": [call]}, index))
            rest = {"index": number, "function": {"arguments": f'{{"n":{index}}}'}}
            pieces.append(chunk({"tool_calls": [rest]}, index))
        pieces.append(chunk(None, index, "tool_calls" if index else "stop", token_ids=[index]))
        queues.append(pieces)
    chunks = []
    while any(queues):
        chunks.append(random.choice([queue for queue in queues if queue]).pop(0))
    usage = {"choices": [], "prompt_token_ids": [9], "usage": {"completion_tokens": 3}}
    steps = parse(make_exchange(sse(*chunks, usage)))
    assert [step.step_id for step in steps] == ["x.0", "x.1", "x.2"]
    assert {step.call_id for step in steps} == {"x"}
    for index, step in enumerate(steps):
        assert [part["text"] for part in parts_of(step) if part["type"] == "text"] == [f"w{index} ü"]
        assert calls_of(step) == [(f"c{index}{number}", "f", f'{{"n":{index}}}') for number in range(index)]
        assert (step.finish_reason, step.response_ids) == ("tool_calls" if index else "stop", [index])


# --- ids that are missing, too few, or of other places ---------------------------------------------------------------------------


def engine(choices: list[dict[str, Any]], completion_tokens: int | None, **root: Any) -> Sequence[Step]:
    made = [{"index": n, "message": {"content": "ho"}, "finish_reason": "stop", **one} for n, one in enumerate(choices)]
    usage = {"usage": {"completion_tokens": completion_tokens}} if completion_tokens is not None else {}
    return parse(make_exchange({"id": "r", "model": "m", "choices": made, **usage, **root}, engine="vllm"))


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [(None, None), ([], []), ([1], []), ([], [2]), ([1], None), (None, [2]), ([1], [None]), ([0.0], [0.0])],
)
def test_ids_that_are_empty_or_none_are_no_data(prompt: Any, ids: Any) -> None:
    (step,) = engine([{"token_ids": ids}], None, prompt_token_ids=prompt)
    assert (step.prompt_ids, step.response_ids, step.logprobs) == (None, None, None)
    assert (step.trainable, step.untrainable_reason) == (False, "the engine gave no token ids")


@pytest.mark.parametrize(("counted", "fits"), [(4, True), (5, False), (3, False), (None, True)])
@pytest.mark.parametrize("split", [[4], [1, 3], [2, 1, 1]])
def test_ids_are_counted_against_usage(split: list[int], counted: int | None, fits: bool) -> None:
    """A tool parser swallows control tokens: of several choices too, where it cannot be said whose."""
    steps = engine([{"token_ids": [7] * size} for size in split], counted, prompt_token_ids=[1])
    assert [step.trainable for step in steps] == [fits] * len(split)
    assert [len(step.response_ids or ()) for step in steps] == split
    for step in steps:
        assert fits or f"token ids came for {counted} completion tokens" in (step.untrainable_reason or "")


def entries(*tokens: tuple[str, float | None]) -> dict[str, Any]:
    return {"content": [{"token": token, "logprob": logprob} for token, logprob in tokens]}


LOGPROBS: dict[str, tuple[dict[str, Any], str | None]] = {
    "fit": (entries(("token_id:5", -1.0), ("token_id:6", -2.0)), None),
    "one longer": (entries(("token_id:5", -1.0), ("token_id:6", -2.0), ("token_id:7", -3.0)), "3 logprobs came for 2 token ids"),
    "one shorter": (entries(("token_id:5", -1.0)), "1 logprobs came for 2 token ids"),
    "shifted": (entries(("token_id:4", -1.0), ("token_id:5", -2.0)), "logprob 0 is of token 4, the token id there is 5"),
    "shifted at the end": (
        entries(("token_id:5", -1.0), ("token_id:7", -2.0)), "logprob 1 is of token 7, the token id there is 6"
    ),
    "no number": (entries(("token_id:5", -1.0), ("token_id:6", None)), "logprob 1 is no logarithm of a probability"),
}  # fmt: skip


@pytest.mark.parametrize("name", LOGPROBS)
@pytest.mark.parametrize("streamed", [False, True])
def test_logprobs_stand_at_the_places_of_their_ids(name: str, streamed: bool) -> None:
    logprobs, reason = LOGPROBS[name]
    body: Any = {"id": "r", "model": "m", "prompt_token_ids": [1], "usage": {"completion_tokens": 2}}
    if streamed:
        pieces = [chunk({"content": "x"}, logprobs={"content": [entry]}) for entry in logprobs["content"]]
        last = chunk(None, 0, "stop", token_ids=[6])
        pieces[0]["choices"][0]["token_ids"] = [5]
        body = sse({**body, "choices": []}, *pieces, last)
    else:
        choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}
        body = {**body, "choices": [{**choice, "token_ids": [5, 6], "logprobs": logprobs}]}
    (step,) = parse(make_exchange(body, engine="vllm"))
    assert step.response_ids == [5, 6]
    assert step.logprobs == ([-1.0, -2.0] if reason is None else None)
    assert (step.trainable, (step.untrainable_reason or "")[: len(reason or "")]) == (reason is None, reason or "")


@pytest.mark.parametrize(
    ("versions", "version", "label"),
    [
        ([7], 7, "7"),
        ([7, 7], 7, "7"),
        ([7, 8], None, "7..8"),
        (["a"], None, "a"),
        ([{"version": 3}, {"version": 5}], None, "3..5"),
    ],
)
def test_weights_that_changed_within_an_answer_are_no_single_policy(
    versions: list[Any], version: int | None, label: str
) -> None:
    (step,) = engine([{"token_ids": [2], "weight_versions": versions}], 1, prompt_token_ids=[1])
    assert (step.policy_version, step.policy_label) == (version, label)
    mixed = f"sampled by several policy versions: {label}" if ".." in label else None
    assert (step.trainable, step.untrainable_reason) == (mixed is None, mixed)
