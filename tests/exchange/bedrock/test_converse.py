"""Converse exchanges as steps: fields, statuses, what a cut leaves, what is refused, and the bodies back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import End, Exchange, Unparseable, parse
from stepwell.exchange._bedrock.converse import BedrockConverse
from stepwell.sdk.records import Step

from .. import junk
from ..junk import ENDS, nested, scalars, words
from .frames import bedrock, converse_stream, event, frame, said_in, text_header, the_step

USAGE = {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3}
ANSWER = {
    "output": {"message": {"role": "assistant", "content": [{"text": "ho"}]}},
    "stopReason": "end_turn",
    "usage": USAGE,
    "metrics": {"latencyMs": 7},
}
TOOLS: list[dict[str, Any]] = [
    {"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}},
    {"cachePoint": {"type": "default"}},
]
ASKED: dict[str, Any] = {
    "system": [{"text": "be kind"}],
    "messages": [
        {"role": "user", "content": [{"text": "hi"}]},
        {"role": "assistant", "content": [{"toolUse": {"toolUseId": "i", "name": "f", "input": {"a": 1}}}]},
        {"role": "user", "content": [{"toolResult": {"toolUseId": "i", "content": [{"json": {"ok": True}}]}}]},
    ],
    "toolConfig": {"tools": TOOLS, "toolChoice": {"any": {}}},
    "inferenceConfig": {"maxTokens": 5, "temperature": 0.5},
    "additionalModelRequestFields": {"top_k": 4},
    "guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"},
    "requestMetadata": {"who": "me"},
    "additionalModelResponseFieldPaths": ["/stop_sequence"],
}


def test_everything_asked_and_answered_is_on_the_step() -> None:
    assert the_step(ANSWER, asked=ASKED) == Step(
        step_id="x.0",
        call_id="x",
        dialect="bedrock.converse",
        messages=[
            {"role": "system", "content": [{"type": "text", "text": "be kind"}]},
            {"role": "user", "content": [{"type": "text", "text": "hi"}]},
            {"role": "assistant", "content": [{"type": "tool_call", "id": "i", "name": "f", "arguments": '{"a":1}'}]},
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "id": "i",
                        "content": [{"type": "text", "text": '{"ok":true}', "extra": {"json": True}}],
                    }
                ],
            },
        ],
        response={"role": "assistant", "content": [{"type": "text", "text": "ho"}]},
        tools=TOOLS,
        sampling={
            "inferenceConfig": {"maxTokens": 5, "temperature": 0.5},
            "additionalModelRequestFields": {"top_k": 4},
            "guardrailConfig": {"guardrailIdentifier": "g", "guardrailVersion": "1"},
            "toolChoice": {"any": {}},
        },
        finish_reason="end_turn",
        usage=USAGE,
        fingerprint="bedrock:some.model-v1:0",
        policy="some.model-v1:0",
        model="some.model-v1:0",
        model_asked="some.model-v1:0",
        response_id="call-1",
        trainable=False,
        untrainable_reason="the engine gave no token ids",
        started_at=datetime.fromtimestamp(1e-6, UTC),
        finished_at=datetime.fromtimestamp(2e-6, UTC),
        extra={
            "request": {"requestMetadata": {"who": "me"}, "additionalModelResponseFieldPaths": ["/stop_sequence"]},
            "response": {"metrics": {"latencyMs": 7}},
        },
    )


def test_the_request_and_the_answer_come_back() -> None:
    dialect = BedrockConverse()
    step = the_step(ANSWER, asked=ASKED)
    assert dialect.request_of(step) == ASKED
    assert dialect.answer_of([step]) == ANSWER
    odd: dict[str, Any] = {
        "messages": [],
        "toolConfig": {"tools": [], "more": 1},
        "promptVariables": {"a": {"text": "b"}},
        "other": None,
    }
    assert dialect.request_of(the_step(ANSWER, asked=odd)) == odd


def test_a_managed_prompt_has_no_messages_in_its_request() -> None:
    step = the_step(ANSWER, asked={"promptVariables": {"a": {"text": "b"}}})
    assert (step.messages, step.extra and step.extra["request"]) == ([], {"promptVariables": {"a": {"text": "b"}}})


EVENTS: list[dict[str, Any]] = [
    {"messageStart": {"role": "assistant"}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"text": "hm"}}}},
    {"contentBlockDelta": {"contentBlockIndex": 0, "delta": {"reasoningContent": {"signature": "s"}}}},
    {"contentBlockStop": {"contentBlockIndex": 0}},
    {"contentBlockStart": {"contentBlockIndex": 1, "start": {"toolUse": {"toolUseId": "i", "name": "f"}}}},
    {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": '{"a"'}}}},
    {"contentBlockDelta": {"contentBlockIndex": 1, "delta": {"toolUse": {"input": ":1}"}}}},
    {"contentBlockStop": {"contentBlockIndex": 1}},
    {"messageStop": {"stopReason": "tool_use"}},
    {"metadata": {"usage": USAGE, "metrics": {"latencyMs": 7}}},
]
STREAM = converse_stream(*EVENTS)


def test_a_stream_is_the_step_of_its_plain_answer() -> None:
    content = [
        {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "s"}}},
        {"toolUse": {"toolUseId": "i", "name": "f", "input": {"a": 1}}},
    ]
    plain = {**ANSWER, "output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use"}
    step = the_step(STREAM, operation="converse-stream")
    assert step == the_step(plain)
    assert BedrockConverse().answer_of([step]) == plain


def test_a_stream_cut_anywhere_keeps_what_there_was() -> None:
    ends = [len(converse_stream(*EVENTS[:number])) for number in range(len(EVENTS) + 1)]
    for cut in range(len(STREAM)):
        step = the_step(STREAM[:cut], operation="converse-stream", end="client_disconnect")
        came = sum(end <= cut for end in ends) - 1
        assert step.status == ("ok" if came >= 9 else "client_disconnect")
        assert step.finish_reason == ("tool_use" if came >= 9 else None)
        calls = [part["arguments"] for part in said_in(step) if part["type"] == "tool_call"]
        assert calls == ([] if came < 5 else [["", '{"a"', '{"a":1}'][min(came - 5, 2)]])
        assert (step.usage is None) == (came < 10)


STOPPED = converse_stream(*EVENTS[:9])
OPEN = converse_stream(*EVENTS[:6])


@pytest.mark.parametrize(
    ("body", "options", "status"),
    [
        (OPEN, {}, "truncated"),
        (OPEN, {"end": "client_disconnect"}, "client_disconnect"),
        (OPEN, {"end": "upstream_error"}, "truncated"),
        (OPEN, {"end": "aborted"}, "aborted"),
        (OPEN, {"truncated": True}, "truncated"),
        (OPEN, {"status": 500}, "error"),
        (STOPPED, {"end": "client_disconnect"}, "ok"),
        (STOPPED, {"truncated": True}, "truncated"),
        (OPEN + event("throttlingException", {"message": "slow"}, "exception"), {}, "error"),
        (None, {"end": "client_disconnect"}, "client_disconnect"),
        (None, {"end": "upstream_error", "status": None}, "error"),
        (None, {"end": "aborted", "status": None}, "aborted"),
        (b'{"output": {"mess', {"end": "client_disconnect"}, "client_disconnect"),
        ({"message": "no"}, {"status": 429}, "error"),
        ({"message": "no"}, {}, "error"),
    ],
)
def test_how_an_answer_ended(body: bytes | dict[str, Any] | None, options: dict[str, Any], status: str) -> None:
    step = the_step(body, **options)
    assert (step.status, step.trainable) == (status, False)
    assert (step.untrainable_reason == "the engine gave no token ids") == (status == "ok")


@pytest.mark.parametrize("bad", [event("metadata", b"{"), event("contentBlockDelta", {"delta": 5})])
def test_an_event_that_cannot_be_read_ends_a_stream_that_was_cut(bad: bytes) -> None:
    options: dict[str, Any] = {"operation": "converse-stream", "end": "upstream_error"}
    step = the_step(OPEN + bad + STREAM, **options)
    assert step == the_step(OPEN, **options)
    assert said_in(step) and step.status == "truncated"
    with pytest.raises(Unparseable):
        the_step(OPEN + bad, operation="converse-stream")


def test_an_exception_in_the_middle_keeps_what_was_said_before() -> None:
    body = OPEN + event("modelStreamErrorException", {"message": "m", "originalStatusCode": 500}, "exception")
    step = the_step(body, operation="converse-stream")
    assert [part["type"] for part in said_in(step)] == ["reasoning", "tool_call"]
    error = {"type": "modelStreamErrorException", "message": "m", "originalStatusCode": 500}
    assert step.extra is not None and step.extra["error"] == error
    back = BedrockConverse().answer_of([step])
    assert back["error"] == error and len(back["output"]["message"]["content"]) == 2


def test_an_error_status_says_what_it_was() -> None:
    step = the_step({"message": "expired"}, status=403)
    assert step.extra == {"error": {"message": "expired"}, "http_status": 403}
    assert (step.response_id, step.model, step.model_asked) == ("call-1", None, "some.model-v1:0")
    assert BedrockConverse().answer_of([step]) == {"message": "expired"}
    assert BedrockConverse().answer_of([the_step(b"<html>", status=502)]) == {"message": "<html>"}


def test_a_plain_answer_that_was_cut_keeps_its_text() -> None:
    step = the_step(b'{"output": {"message": {"content": [{"text": "ha', end="upstream_error")
    assert step.extra == {"response": {"partial_body": '{"output": {"message": {"content": [{"text": "ha'}}


@pytest.mark.parametrize(
    "asked",
    [
        b"", b"{", b"[]", b"5", b"\xff", {}, {"messages": None}, {"messages": "hi"}, {"messages": [5]}, {"messages": [{}]},
        {"messages": [{"role": "user", "content": 5}]}, {"messages": [{"role": "user", "content": ["a"]}]},
        {"messages": [], "system": 5}, {"messages": [], "system": ["a"]}, {"messages": [], "toolConfig": [1]},
        {"messages": [], "toolConfig": {"tools": "all"}}, {"messages": [], "toolConfig": {"tools": [5]}},
        b'{"messages": [{"role": "user", "content": [{"text": "\\ud800"}]}]}',
        b'{"messages": [], "x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
    ],
)  # fmt: skip
def test_a_request_that_is_none_is_unparseable(asked: bytes | dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        the_step(ANSWER, asked=asked)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"{}", b"\xff" * 30, b'{"output": {}}', STREAM[:-20] + b"\x00" * 20, STREAM[:40],
        converse_stream({"contentBlockDelta": {"delta": 5}}), event("messageStop", b"[]"),
        converse_stream({"messageStart": {"role": 5}}), converse_stream({"messageStop": {"stopReason": 5}}),
        {**ANSWER, "usage": 5},
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_unparseable_when_it_is_whole(body: bytes | dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        the_step(body)


def test_an_exception_alone_is_a_step_with_its_error() -> None:
    step = the_step(event("validationException", {"message": "no"}, "exception"), operation="converse-stream")
    assert (step.status, said_in(step)) == ("error", [])


def test_frames_are_known_without_their_type() -> None:
    exchange = bedrock(STREAM, operation="converse-stream", headers=(("content-type", "x"),))
    (step,) = parse(exchange)
    assert step.status == "ok"


said = words("assistant", "end_turn", "max_tokens")
KEYS = [
    "output", "message", "content", "role", "text", "toolUse", "toolUseId", "name", "input", "type", "toolResult", "json",
    "reasoningContent", "reasoningText", "signature", "redactedContent", "citationsContent", "citations", "citation", "delta",
    "start", "contentBlockIndex", "stopReason", "usage", "metrics", "trace", "promptRouter", "invokedModelId", "image", "source",
    "bytes", "guardContent", "cachePoint", "error", "system", "messages", "toolConfig", "tools", "toolChoice",
    "inferenceConfig", "promptVariables",
]  # fmt: skip
anything = nested(scalars(said), st.sampled_from(KEYS) | said, 4, leaves=12)
objects = st.dictionaries(st.sampled_from(KEYS), anything, max_size=5)
KINDS = ["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata", "weather",
         "validationException", ""]  # fmt: skip


@settings(max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(KINDS), objects), max_size=5), ENDS)
def test_no_stream_makes_it_fail(events: list[tuple[str, Any]], end: End) -> None:
    body = b"".join(event(kind, payload) for kind, payload in events)
    never_fails(bedrock(body, operation="converse-stream", end=end))


@settings(max_examples=80)
@given(objects | st.fixed_dictionaries({"output": st.fixed_dictionaries({"message": objects})}), objects, ENDS)
def test_no_answer_and_no_request_make_it_fail(answer: dict[str, Any], asked: dict[str, Any], end: End) -> None:
    never_fails(bedrock(answer, end=end))
    never_fails(bedrock(ANSWER, asked=asked, end=end))


@settings(max_examples=80)
@given(st.binary(max_size=60), st.binary(max_size=30), ENDS)
def test_no_bytes_make_it_fail(body: bytes, headers: bytes, end: End) -> None:
    never_fails(bedrock(body, end=end))
    never_fails(bedrock(ANSWER, asked=body, end=end))
    kind = text_header(":event-type", "contentBlockDelta")
    never_fails(bedrock(frame(body, headers) + frame(body, kind), operation="converse-stream", end=end))


def never_fails(exchange: Exchange) -> None:
    for step in junk.never_fails(exchange):
        assert step.messages is not None
