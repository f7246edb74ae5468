"""The invoke API around the models' own protocols: frames, metrics, what is no step, statuses, bodies back."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import End, Exchange, NoStep, Unparseable, parse
from stepwell.exchange._bedrock.invoke import BedrockInvoke

from .. import junk
from ..junk import ENDS, nested, scalars, words
from .frames import bedrock, chunk, event, said_in, the_step

METRICS = {"inputTokenCount": 3, "outputTokenCount": 2, "invocationLatency": 9, "firstByteLatency": 4}
CLAUDE_ASKED: dict[str, Any] = {
    "anthropic_version": "bedrock-2023-05-31",
    "max_tokens": 5,
    "system": [{"type": "text", "text": "be kind"}],
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    "tools": [{"name": "f", "input_schema": {"type": "object"}}],
}
CLAUDE: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude-x",
    "content": [{"type": "text", "text": "ho"}, {"type": "tool_use", "id": "i", "name": "f", "input": {"a": 1}}],
    "stop_reason": "tool_use",
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
CLAUDE_EVENTS: list[dict[str, Any]] = [
    {"type": "message_start", "message": {**CLAUDE, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "ho"}},
    {"type": "content_block_stop", "index": 0},
    {
        "type": "content_block_start",
        "index": 1,
        "content_block": {"type": "tool_use", "id": "i", "name": "f", "input": {}},
    },
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": '{"a": 1}'}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop", "amazon-bedrock-invocationMetrics": METRICS},
]
NOVA_ASKED: dict[str, Any] = {
    "schemaVersion": "messages-v1",
    "system": [{"text": "be kind"}],
    "messages": [{"role": "user", "content": [{"text": "hi"}]}],
    "inferenceConfig": {"max_new_tokens": 5},
    "toolConfig": {"tools": [{"toolSpec": {"name": "f"}}], "toolChoice": {"auto": {}}},
}
NOVA: dict[str, Any] = {
    "output": {
        "message": {
            "role": "assistant",
            "content": [{"text": "ho"}, {"toolUse": {"toolUseId": "i", "name": "f", "input": {"a": 1}}}],
        }
    },
    "stopReason": "tool_use",
    "usage": {"inputTokens": 3, "outputTokens": 2},
}
NOVA_EVENTS: list[dict[str, Any]] = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"delta": {"text": "ho"}, "contentBlockIndex": 0}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
    {"contentBlockStart": {"start": {"toolUse": {"toolUseId": "i", "name": "f"}}, "contentBlockIndex": 1}},
    {"contentBlockDelta": {"delta": {"toolUse": {"input": '{"a": 1}'}}, "contentBlockIndex": 1}},
    {"contentBlockStop": {"contentBlockIndex": 1}},
    {"messageStop": {"stopReason": "tool_use"}},
    {"metadata": {"usage": NOVA["usage"]}, "amazon-bedrock-invocationMetrics": METRICS},
]
STREAM = "invoke-with-response-stream"


def frames(events: list[dict[str, Any]]) -> bytes:
    return b"".join(map(chunk, events))


@pytest.mark.parametrize(
    ("asked", "plain", "events", "response_id", "model"),
    [
        (CLAUDE_ASKED, CLAUDE, CLAUDE_EVENTS, "msg_1", "claude-x"),
        (NOVA_ASKED, NOVA, NOVA_EVENTS, "call-1", "some.model-v1:0"),
    ],
)
def test_plain_and_streamed_are_the_same_step_and_come_back(
    asked: dict[str, Any], plain: dict[str, Any], events: list[dict[str, Any]], response_id: str, model: str
) -> None:
    step, streamed = (
        the_step(plain, asked=asked, operation="invoke"),
        the_step(frames(events), asked=asked, operation=STREAM),
    )
    for one in (step, streamed):
        assert (one.status, one.finish_reason, one.usage) == ("ok", "tool_use", plain["usage"])
        assert (one.response_id, one.model, one.model_asked) == (response_id, model, "some.model-v1:0")
        assert [part["type"] for part in said_in(one)] == ["text", "tool_call"]
        assert json.loads(said_in(one)[1]["arguments"]) == {"a": 1}
        assert one.messages is not None and [message["role"] for message in one.messages] == ["system", "user"]
        assert BedrockInvoke().request_of(one) == asked
    assert BedrockInvoke().answer_of([step]) == plain
    assert BedrockInvoke().answer_of([streamed]) == {**plain, "amazon-bedrock-invocationMetrics": METRICS}


@pytest.mark.parametrize(("asked", "events"), [(CLAUDE_ASKED, CLAUDE_EVENTS), (NOVA_ASKED, NOVA_EVENTS)])
def test_a_stream_cut_anywhere_keeps_what_there_was(asked: dict[str, Any], events: list[dict[str, Any]]) -> None:
    body = frames(events)
    whole = the_step(body, asked=asked, operation=STREAM)
    for cut in range(0, len(body), 7):
        step = the_step(body[:cut], asked=asked, operation=STREAM, end="client_disconnect")
        assert step.status == ("ok" if step.finish_reason else "client_disconnect")
        for part, full in zip(said_in(step), said_in(whole), strict=False):
            key = "text" if part["type"] == "text" else "arguments"
            assert full[key].startswith(part[key])


@pytest.mark.parametrize(
    "bad",
    [
        chunk(b"{"), chunk(b"[]"), event("chunk", {}), event("chunk", {"bytes": "no base64!"}), event("chunk", b"{"), event("x", b"{"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("asked", "events"),
    [(CLAUDE_ASKED, CLAUDE_EVENTS[:3]), (NOVA_ASKED, NOVA_EVENTS[:3]), ({"prompt": "hi"}, [{"generation": "ho"}])],
)
def test_a_frame_that_cannot_be_read_ends_a_stream_that_was_cut(
    asked: dict[str, Any], events: list[dict[str, Any]], bad: bytes
) -> None:
    step = the_step(frames(events) + bad + frames(events), asked=asked, operation=STREAM, end="client_disconnect")
    assert step == the_step(frames(events), asked=asked, operation=STREAM, end="client_disconnect")
    assert said_in(step) and step.status == "client_disconnect"
    with pytest.raises(Unparseable):
        the_step(frames(events) + bad, asked=asked, operation=STREAM)


@pytest.mark.parametrize(
    ("asked", "events", "bad"),
    [
        (NOVA_ASKED, NOVA_EVENTS[:3], {"contentBlockDelta": {"delta": 5}}),
        ({"prompt": "hi"}, [{"outputs": [{"text": "ho"}]}], {"outputs": 5}),
    ],
)
def test_an_event_of_another_shape_ends_a_stream_that_was_cut(
    asked: dict[str, Any], events: list[dict[str, Any]], bad: dict[str, Any]
) -> None:
    cut = frames([*events, bad, *events])
    step = the_step(cut, asked=asked, operation=STREAM, end="client_disconnect")
    assert said_in(step) == said_in(the_step(frames(events), asked=asked, operation=STREAM, end="client_disconnect"))
    with pytest.raises(Unparseable):
        the_step(cut, asked=asked, operation=STREAM)


def test_what_bedrock_adds_to_an_answer_is_kept_apart_from_it() -> None:
    added = {"amazon-bedrock-guardrailAction": "NONE", "amazon-bedrock-trace": {"guardrail": {}}}
    step = the_step({**CLAUDE, **added}, asked=CLAUDE_ASKED, operation="invoke")
    assert step.extra is not None and step.extra["response"].items() >= added.items()
    assert BedrockInvoke().answer_of([step]) == {**CLAUDE, **added}


def test_a_streams_metrics_count_its_tokens_where_the_model_does_not() -> None:
    pieces: list[dict[str, Any]] = [{"outputs": [{"text": "ho", "stop_reason": None}]},
              {"outputs": [{"text": "", "stop_reason": "stop"}], "amazon-bedrock-invocationMetrics": METRICS}]  # fmt: skip
    step = the_step(frames(pieces), asked={"prompt": "hi"}, operation=STREAM)
    assert step.usage == {"inputTokenCount": 3, "outputTokenCount": 2}
    assert (step.status, said_in(step)) == ("ok", [{"type": "text", "text": "ho"}])
    assert BedrockInvoke().answer_of([step]) == {
        "outputs": [{"text": "ho", "stop_reason": "stop"}],
        "amazon-bedrock-invocationMetrics": METRICS,
    }


def test_metrics_are_the_last_word_of_a_stream_without_a_reason() -> None:
    piece = {"generation": "ho", "amazon-bedrock-invocationMetrics": METRICS}
    assert the_step(frames([piece]), asked={"prompt": "hi"}, operation=STREAM).status == "ok"
    assert the_step(frames([{"generation": "ho"}]), asked={"prompt": "hi"}, operation=STREAM).status == "truncated"


EXCEPTION = event("modelTimeoutException", {"message": "slow"}, "exception")


@pytest.mark.parametrize(
    ("body", "options", "status", "error"),
    [
        ({"message": "no"}, {"status": 403}, "error", {"message": "no"}),
        (b"<html>", {"status": 502}, "error", "<html>"),
        ({"message": "no"}, {}, "error", {"message": "no"}),
        (EXCEPTION, {}, "error", {"type": "modelTimeoutException", "message": "slow"}),
        (frames(CLAUDE_EVENTS[:3]) + EXCEPTION, {}, "error", {"type": "modelTimeoutException", "message": "slow"}),
        (
            frames([*CLAUDE_EVENTS[:3], {"type": "error", "error": {"type": "overloaded_error"}}]),
            {},
            "error",
            {"type": "overloaded_error"},
        ),
        (frames([{"message": "late"}]), {}, "error", {"message": "late"}),
        (None, {"status": None, "end": "upstream_error"}, "error", None),
        (None, {"end": "client_disconnect"}, "client_disconnect", None),
        (frames(CLAUDE_EVENTS[:3]), {}, "truncated", None),
        (frames(CLAUDE_EVENTS[:3]), {"end": "aborted"}, "aborted", None),
        (b'{"content": [', {"end": "upstream_error"}, "truncated", None),
    ],
)
def test_how_an_answer_ended(body: Any, options: dict[str, Any], status: str, error: Any) -> None:
    step = the_step(body, asked=CLAUDE_ASKED, operation=STREAM, **options)
    assert (step.status, step.trainable) == (status, False)
    assert (step.extra or {}).get("error") == error
    json.dumps(BedrockInvoke().answer_of([step]))


def test_an_exception_in_the_middle_keeps_what_was_said_before() -> None:
    step = the_step(frames(CLAUDE_EVENTS[:3]) + EXCEPTION, asked=CLAUDE_ASKED, operation=STREAM)
    assert said_in(step) == [{"type": "text", "text": "ho"}]
    error = {"type": "modelTimeoutException", "message": "slow"}
    assert BedrockInvoke().answer_of([step])["error"] == error
    piece = chunk({"generation": "ho", "stop_reason": None})
    step = the_step(piece + EXCEPTION, asked={"prompt": "hi"}, operation=STREAM)
    assert BedrockInvoke().answer_of([step]) == {"generation": "ho", "stop_reason": None, "error": error}


def test_errors_come_back() -> None:
    step = the_step({"message": "no"}, asked=CLAUDE_ASKED, operation="invoke", status=403)
    assert BedrockInvoke().answer_of([step]) == {"message": "no"}
    step = the_step(b"<html>", asked=CLAUDE_ASKED, operation="invoke", status=502)
    assert BedrockInvoke().answer_of([step]) == {"message": "<html>"}


@pytest.mark.parametrize(
    ("asked", "body", "options"),
    [
        ({"inputText": "a", "dimensions": 5}, {"embedding": [0.5]}, {}),
        ({"inputText": "a"}, {"embedding": [0.5], "inputTextTokenCount": 1}, {}),
        ({"inputText": "a"}, {"message": "no"}, {"model": "amazon.titan-embed-text-v1", "status": 400}),
        ({"texts": ["a"], "input_type": "search_query"}, {"embeddings": [[0.5]]}, {}),
        ({"query": "a", "documents": ["b"]}, {"results": [{"index": 0, "relevance_score": 1}]}, {}),
        ({"prompt": "a"}, {"images": ["aGk="]}, {}),
    ],
)
def test_what_is_no_generation_of_text_is_no_step(asked: Any, body: Any, options: dict[str, Any]) -> None:
    with pytest.raises(NoStep, match="not a generation of text"):
        parse(bedrock(body, asked=asked, operation="invoke", **options))


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"5", b"{}", b'{"other": 1}', chunk(b"{"), chunk(b"[]"), event("chunk", {}), event("chunk", {"bytes": 5}),
        event("chunk", {"bytes": "no base64!"}), chunk({"type": "ping"}), chunk({"other": 1})[:-1],
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_unparseable_when_it_is_whole(body: bytes) -> None:
    with pytest.raises(Unparseable):
        the_step(body, asked=CLAUDE_ASKED, operation=STREAM)


@pytest.mark.parametrize(
    "asked", [b"", b"{", b"[]", {}, {"messages": 5}, {"messages": [5]}, {"messages": [{}]}, {"message": 5}]
)
def test_a_request_that_is_none_is_unparseable(asked: Any) -> None:
    with pytest.raises(Unparseable):
        the_step(CLAUDE, asked=asked, operation="invoke")


def test_an_event_that_is_no_chunk_is_kept() -> None:
    step = the_step(frames(CLAUDE_EVENTS) + event("weather", {"rain": True}), asked=CLAUDE_ASKED, operation=STREAM)
    assert step.extra is not None and step.extra["response"]["events"] == [{"weather": {"rain": True}}]


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [60, 300, 900])
@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        ({"messages": []}, lambda value: {"choices": [{"message": {"content": value}}]}),
        ({"messages": []}, lambda value: {"choices": [{"message": {"tool_calls": [{"function": {"arguments": value}}]}}]}),
        ({"messages": []}, lambda value: {"choices": [{"text": "a", "more": value}]}),
        ({"messages": []}, lambda value: {"choices": [{"delta": {"content": "a"}}], "more": value}),
        ({"prompt": "a"}, lambda value: {"generation": "a", "more": value}),
        ({"message": "a"}, lambda value: {"text": "a", "generation_id": "g", "tool_calls": [{"name": "f", "parameters": value}]}),
        (NOVA_ASKED, lambda value: {"output": {"message": {"role": "assistant", "content": [{"toolUse": {"name": "f", "input": value}}]}}}),
        (NOVA_ASKED, lambda value: {"contentBlockDelta": {"delta": {"toolUse": {"input": value}}}}),
        (CLAUDE_ASKED, lambda value: {"type": "message", "content": [{"type": "tool_use", "name": "f", "input": value}]}),
    ],
)  # fmt: skip
def test_no_depth_makes_it_fail(levels: int, asked: dict[str, Any], answer: Any) -> None:
    made = answer(deep(levels))
    never_fails(bedrock(made, asked=asked, operation="invoke"))
    never_fails(bedrock(chunk(made), asked=asked, operation=STREAM))
    never_fails(bedrock({"generation": "a"}, asked={**asked, "tools": deep(levels)}, operation="invoke"))
    result = {"toolResult": {"toolUseId": "i", "content": [{"json": deep(levels)}]}}
    for operation in ("invoke", "converse"):
        asked = {"messages": [{"role": "user", "content": [result]}]}
        never_fails(bedrock(NOVA, asked=asked, operation=operation))


said = words("assistant", "user", "stop", "message_start", "message", "text")
KEYS = [
    "type", "message", "messages", "prompt", "inputText", "system", "anthropic_version", "schemaVersion", "content", "role", "text",
    "generation", "completion", "outputs", "results", "outputText", "generations", "choices", "completions", "data", "finishReason",
    "reason", "stop_reason", "finish_reason", "index", "delta", "usage", "id", "model", "event_type", "response", "tool_calls", "name",
    "parameters", "citations", "chat_history", "preamble", "tool_results", "output", "stopReason", "messageStart",
    "contentBlockDelta", "contentBlockStart", "metadata", "toolUse", "input", "images", "error", "completionReason", "form",
    "family", "absent", "amazon-bedrock-invocationMetrics", "inputTokenCount", "generation_id", "tools", "outputs",
]  # fmt: skip
anything = nested(scalars(said), st.sampled_from(KEYS) | said, 4, leaves=10)
objects = st.dictionaries(st.sampled_from(KEYS), anything, max_size=4)
requests = st.sampled_from([CLAUDE_ASKED, NOVA_ASKED, {"prompt": "hi"}, {"message": "hi"}, {"messages": []}])


@settings(max_examples=80)
@given(st.lists(objects | st.sampled_from([*CLAUDE_EVENTS, *NOVA_EVENTS]), max_size=4), requests, ENDS)
def test_no_stream_makes_it_fail(events: list[Any], asked: dict[str, Any], end: End) -> None:
    never_fails(bedrock(frames(events), asked=asked, operation=STREAM, end=end))


@settings(max_examples=80)
@given(objects, objects, requests, ENDS)
def test_no_answer_and_no_request_make_it_fail(answer: Any, asked: Any, known: dict[str, Any], end: End) -> None:
    never_fails(bedrock(answer, asked=known, operation="invoke", end=end))
    never_fails(bedrock(answer, asked=asked, operation="invoke", end=end))
    never_fails(bedrock(answer, asked={**known, **asked}, operation="invoke", end=end))


@settings(max_examples=80)
@given(st.binary(max_size=60), ENDS)
def test_no_bytes_make_it_fail(body: bytes, end: End) -> None:
    never_fails(bedrock(body, asked=CLAUDE_ASKED, operation=STREAM, end=end))
    never_fails(bedrock(event("chunk", body), asked=CLAUDE_ASKED, operation=STREAM, end=end))
    packed = {"bytes": base64.b64encode(body).decode()}
    never_fails(bedrock(event("chunk", packed), asked=NOVA_ASKED, operation=STREAM, end=end))


def never_fails(exchange: Exchange) -> None:
    junk.never_fails(exchange, (Unparseable, NoStep))
