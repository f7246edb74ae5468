"""Cohere's Command R on Bedrock: the conversation around its message, its calls, its stream."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange import Unparseable
from stepwell.exchange._bedrock.cohere import answer_from_body, answer_from_events, asked_from
from stepwell.exchange._bedrock.invoke import BedrockInvoke

from .frames import chunk, the_step

CALL = {"name": "f", "parameters": {"a": 1}}
ASKED: dict[str, Any] = {
    "preamble": "be kind",
    "chat_history": [
        {"role": "USER", "message": "hello"},
        {"role": "CHATBOT", "message": "yes?", "tool_calls": [CALL]},
        {"role": "TOOL", "tool_results": [{"call": CALL, "outputs": [{"n": 1}]}]},
        {"role": "SYSTEM", "message": "mind", "id": 5},
    ],
    "message": "hi",
    "tools": [{"name": "f", "description": "d", "parameter_definitions": {}}],
    "tool_results": [{"call": CALL, "outputs": [{"n": 2}]}],
    "documents": [{"title": "t", "snippet": "s"}],
    "temperature": 0.5,
}
ANSWER: dict[str, Any] = {
    "response_id": "r",
    "text": "ho",
    "generation_id": "g",
    "citations": [{"start": 0, "end": 2, "text": "ho", "document_ids": ["doc_0"]}],
    "tool_calls": [CALL],
    "finish_reason": "COMPLETE",
    "chat_history": [{"role": "USER", "message": "hi"}],
    "meta": {"billed_units": {"input_tokens": 1, "output_tokens": 2}},
}


def result(text: str) -> dict[str, Any]:
    return {
        "type": "tool_result",
        "id": None,
        "content": [{"type": "text", "text": text}],
        "extra": {"call": CALL},
    }


def call() -> dict[str, Any]:
    return {"type": "tool_call", "id": None, "name": "f", "arguments": '{"a":1}'}


def test_the_conversation_is_all_that_the_model_sees() -> None:
    asked = asked_from(ASKED, "m")
    assert asked.messages == [
        {"role": "system", "content": [{"type": "text", "text": "be kind"}], "extra": {"preamble": True}},
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "yes?"}, call()]},
        {"role": "tool", "content": [result('[{"n":1}]')]},
        {"role": "system", "content": [{"type": "text", "text": "mind"}], "extra": {"id": 5}},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "tool", "content": [result('[{"n":2}]')]},
    ]
    assert (asked.tools, asked.sampling, asked.extra) == (
        ASKED["tools"], {"temperature": 0.5}, {"documents": ASKED["documents"]},
    )  # fmt: skip


def test_request_and_answer_come_back() -> None:
    step = the_step(ANSWER, asked=ASKED, operation="invoke")
    assert step.response is not None and step.response["content"] == [
        {"type": "text", "text": "ho", "extra": {"citations": ANSWER["citations"]}},
        call(),
    ]
    assert (step.finish_reason, step.response_id, step.usage) == ("COMPLETE", "g", ANSWER["meta"])
    assert BedrockInvoke().request_of(step) == ASKED
    assert BedrockInvoke().answer_of([step]) == ANSWER
    bare = {"message": "hi"}
    step = the_step({"text": "ho", "generation_id": "g", "finish_reason": "COMPLETE"}, asked=bare, operation="invoke")
    assert BedrockInvoke().request_of(step) == bare


@pytest.mark.parametrize(
    ("reason", "status"),
    [("COMPLETE", "ok"), ("MAX_TOKENS", "truncated"), ("ERROR_TOXIC", "error"), ("STOP_SEQUENCE", "ok")],
)
def test_what_a_reason_means(reason: str, status: str) -> None:
    assert the_step({**ANSWER, "finish_reason": reason}, asked=ASKED, operation="invoke").status == status


STREAM: list[dict[str, Any]] = [
    {"event_type": "stream-start", "is_finished": False, "generation_id": "g"},
    {"event_type": "text-generation", "is_finished": False, "text": "h"},
    {"event_type": "text-generation", "is_finished": False, "text": "o"},
    {"event_type": "citation-generation", "is_finished": False, "citations": ANSWER["citations"]},
    {"event_type": "tool-calls-generation", "is_finished": False, "tool_calls": [CALL]},
    {"event_type": "stream-end", "is_finished": True, "finish_reason": "COMPLETE", "response": ANSWER},
]


def test_a_stream_ends_with_the_whole_answer() -> None:
    answer = answer_from_events(STREAM)
    plain = answer_from_body(ANSWER)
    assert (answer.choices, answer.usage, answer.response_id) == (plain.choices, plain.usage, plain.response_id)
    assert answer.terminated


def test_without_its_end_the_pieces_make_the_answer() -> None:
    for cut in range(1, len(STREAM)):
        answer = answer_from_events(STREAM[:cut])
        (choice,) = answer.choices
        said = choice.message["content"]
        assert "".join(part["text"] for part in said if part["type"] == "text") == "ho"[: max(0, cut - 1)]
        assert [part for part in said if part["type"] == "tool_call"] == ([call()] if cut == 5 else [])
        assert (answer.terminated, answer.response_id, choice.finish_reason) == (False, "g", None)
    ended = answer_from_events([*STREAM[:3], {"event_type": "stream-end", "finish_reason": "MAX_TOKENS"}])
    assert (ended.choices[0].cut, ended.terminated) == (True, True)


def test_a_stream_in_frames() -> None:
    body = b"".join(map(chunk, STREAM))
    step = the_step(body, asked={**ASKED, "stream": True}, operation="invoke-with-response-stream")
    assert (step.status, step.response_id) == ("ok", "g")


@pytest.mark.parametrize(
    "body",
    [
        {"message": 5}, {"message": "a", "chat_history": 5}, {"message": "a", "chat_history": [5]},
        {"message": "a", "chat_history": [{"role": "USER", "tool_calls": 5}]}, {"message": "a", "tool_results": 5},
        {"message": "a", "chat_history": [{"role": "USER", "tool_calls": [{"name": 5}]}]},
    ],
)  # fmt: skip
def test_a_request_that_is_none_is_unparseable(body: dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        asked_from(body, None)
