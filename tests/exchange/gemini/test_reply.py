"""Answers: plain, as events, as an array; cut, blocked, failed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.exchange import End, Response, Unparseable
from stepwell.exchange._gemini.reply import lack_of, read_answer
from stepwell.exchange._generation import Answer


def answer(
    body: bytes | dict[str, Any] | list[Any],
    *,
    end: End = "complete",
    status: int | None = 200,
    kind: str = "application/json",
    vertex: bool = False,
) -> Answer:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    kind = "text/event-stream" if raw.startswith(b"data:") else kind
    return read_answer(Response(status, [("content-type", kind)], raw, end, 2), vertex=vertex)


def sse(*chunks: Any) -> bytes:
    return "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks).encode()


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"content": {"role": "model", "parts": [{"text": text}]}, **fields}


def texts(found: Answer) -> list[str]:
    return ["".join(part["text"] for part in choice.message["content"]) for choice in found.choices]


WHOLE: dict[str, Any] = {
    "candidates": [said("hello", finishReason="STOP", index=0, safetyRatings=[], avgLogprobs=-0.1)],
    "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": "2"},
    "modelVersion": "m-1",
    "responseId": "r",
    "createTime": "now",
}
CHUNKS: list[dict[str, Any]] = [
    {"candidates": [said("he")], "usageMetadata": {"promptTokenCount": 1, "thoughtsTokenCount": 7}, "responseId": "r"},
    {"candidates": [said("l")], "modelVersion": "m-1", "usageMetadata": {"candidatesTokenCount": 2}},
    {
        "candidates": [said("lo", finishReason="STOP")],
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 5},
        "responseId": "r",
        "createTime": "now",
    },
]


def test_a_plain_answer() -> None:
    found = answer(WHOLE)
    (choice,) = found.choices
    assert choice.message == {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}
    assert (choice.index, choice.finish_reason, choice.cut, choice.failed) == (0, "STOP", False, False)
    assert choice.extra == {"safetyRatings": [], "avgLogprobs": -0.1}
    assert (found.model, found.response_id, found.terminated, found.error) == ("m-1", "r", True, None)
    assert found.usage == {"promptTokenCount": 1, "candidatesTokenCount": "2"}
    assert found.extra == {"createTime": "now"}


@pytest.mark.parametrize("body", [sse(*CHUNKS), CHUNKS, b"\xef\xbb\xbf" + json.dumps(CHUNKS, indent=1).encode()])
def test_a_streamed_answer_in_either_form(body: Any) -> None:
    found = answer(body)
    assert texts(found) == ["hello"]
    assert found.choices[0].finish_reason == "STOP"
    assert (found.model, found.response_id, found.terminated, found.error) == ("m-1", "r", True, None)
    assert found.usage == {"promptTokenCount": 1, "candidatesTokenCount": 5, "thoughtsTokenCount": 7}
    assert found.extra == {"createTime": "now"}


def test_either_case_and_enums_by_number() -> None:
    body = {
        "candidates": [
            {"content": {"parts": [{"function_call": {"name": "f"}}]}, "finish_reason": 2, "token_count": 3}
        ],
        "usage_metadata": {"prompt_token_count": 1},
        "model_version": "m",
        "response_id": "r",
    }
    for found in (answer(body), answer([body]), answer(sse(body))):
        (choice,) = found.choices
        assert choice.message["content"] == [{"type": "tool_call", "id": None, "name": "f", "arguments": "{}"}]
        assert (choice.finish_reason, choice.cut) == ("MAX_TOKENS", True)
        assert choice.extra == {"finishReason": 2, "tokenCount": 3}
        assert (found.model, found.response_id, found.usage) == ("m", "r", {"promptTokenCount": 1})
    for vertex, reason in [(False, "SPII"), (True, "MALFORMED_FUNCTION_CALL")]:
        assert answer({"candidates": [said("", finishReason=9)]}, vertex=vertex).choices[0].finish_reason == reason


def test_an_array_cut_anywhere() -> None:
    body = json.dumps(CHUNKS)
    for cut in range(len(body)):
        found = answer(body[:cut].encode(), end="client_disconnect")
        whole = [end for end in range(3) if cut >= len(json.dumps(CHUNKS[: end + 1])) - 1]
        assert texts(found) == ([["he", "hel", "hello"][whole[-1]]] if whole else [])
        assert found.terminated == (len(whole) == 3)
        assert [choice.finish_reason for choice in found.choices] == ["STOP" if len(whole) == 3 else None][: len(whole)]
        assert found.error is None


def test_events_cut_anywhere() -> None:
    body = sse(*CHUNKS)
    for cut in range(len(body)):
        found = answer(body[:cut], end="upstream_error")
        whole = [end for end in range(3) if cut >= len(sse(*CHUNKS[: end + 1])) - 4]  # blank lines add nothing
        assert texts(found) == ([["he", "hel", "hello"][whole[-1]]] if whole else [])
        assert found.terminated == (len(whole) == 3)
        assert found.error is None


def test_a_stream_that_closes_in_order_before_its_candidate_has_ended() -> None:
    found = answer(sse(*CHUNKS[:2]))
    assert (texts(found), found.terminated, found.choices[0].finish_reason) == (["hel"], False, None)


def test_a_plain_answer_that_was_cut_keeps_its_beginning() -> None:
    found = answer(json.dumps(WHOLE).encode()[:30], end="client_disconnect")
    assert (found.choices, found.terminated) == ([], False)
    assert found.extra == {"partial_body": json.dumps(WHOLE)[:30]}
    assert answer(b"", end="client_disconnect") == Answer()
    assert answer(b"", status=None) == Answer()


def test_several_candidates() -> None:
    plain = answer({"candidates": [said("a"), said("b", index=1), said("c", index="2")]})  # a 0 is not written
    assert [choice.index for choice in plain.choices] == [0, 1, 2]
    assert texts(plain) == ["a", "b", "c"]
    streamed = answer(
        sse(
            {"candidates": [said("b", index=1)]},
            {"candidates": [said("a"), said("b", index=1, finishReason="STOP")]},
            {"candidates": [said("a", finishReason="MAX_TOKENS")]},
        )
    )
    assert [(choice.index, choice.finish_reason, choice.cut) for choice in streamed.choices] == [
        *((0, "MAX_TOKENS", True), (1, "STOP", False)),
    ]
    assert texts(streamed) == ["aa", "bb"]
    assert streamed.terminated
    for given, wanted in [((0, 0), [0, 1]), ((None, None), [0, 1]), ((1, None), [1, 0]), ((None, 0), [0, 1])]:
        found = answer({"candidates": [said("a", index=given[0]), said("b", index=given[1])]})
        assert ([choice.index for choice in found.choices], texts(found)) == (wanted, ["a", "b"])


def test_one_candidate_of_several_may_have_ended() -> None:
    found = answer([{"candidates": [said("a", finishReason="STOP"), said("b", index=1)]}])
    assert not found.terminated
    assert [choice.finish_reason for choice in found.choices] == ["STOP", None]


@pytest.mark.parametrize(
    ("feedback", "error"),
    [
        ({"blockReason": "SAFETY"}, {"blockReason": "SAFETY", "message": "the prompt was blocked: SAFETY"}),
        ({"block_reason": 4}, {"blockReason": "PROHIBITED_CONTENT", "message": "the prompt was blocked: PROHIBITED_CONTENT"}),
        ({"blockReason": "X", "blockReasonMessage": "why"}, {"blockReason": "X", "message": "why"}),
        ({"blockReasonMessage": "why"}, {"message": "the answer has no candidate: why"}),
        ({}, {"message": "the answer has no candidate"}),
        (5, {"message": "the answer has no candidate"}),
    ],
)  # fmt: skip
def test_a_blocked_prompt_is_an_error_that_names_the_block(feedback: Any, error: dict[str, str]) -> None:
    body = {"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 3}}
    for found in (answer(body), answer({**body, "candidates": []}), answer([body]), answer(sse(body))):
        assert (found.choices, found.error) == ([], error)
        assert found.extra == {"promptFeedback": feedback}
        assert lack_of(found.extra) == error
        assert found.usage == {"promptTokenCount": 3}


def test_a_block_that_comes_in_mid_stream() -> None:
    found = answer(sse(CHUNKS[0], {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}))
    assert (texts(found), found.error["blockReason"]) == (["he"], "PROHIBITED_CONTENT")
    late = answer({**WHOLE, "promptFeedback": {"blockReason": "OTHER"}})  # of a candidate that had ended already
    assert (texts(late), late.error) == (["hello"], None)
    rated = answer({**WHOLE, "promptFeedback": {"safetyRatings": [1]}})
    assert (rated.error, rated.extra["promptFeedback"]) == (None, {"safetyRatings": [1]})


ERROR = {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}


@pytest.mark.parametrize(
    "body",
    [
        {"error": ERROR},
        [CHUNKS[0], {"error": ERROR}],
        sse(CHUNKS[0], {"error": ERROR}),
        sse(CHUNKS[0]) + b"event: error\r\ndata: " + json.dumps(ERROR).encode() + b"\r\n\r\n",
        sse(CHUNKS[0]) + json.dumps({"error": ERROR}, indent=2).encode(),
        {"response": {"error": ERROR}},
    ],
)
def test_an_error_in_an_answer_of_status_200(body: Any) -> None:
    found = answer(body)
    assert found.error == ERROR
    assert texts(found) == ([] if isinstance(body, dict) else ["he"])


def test_an_error_status() -> None:
    for body in ({"error": ERROR}, [{"error": ERROR}]):
        found = answer(body, status=503)
        assert (found.error, found.terminated, found.choices) == (ERROR, True, [])
    assert answer(b"<html>", status=502).error == "<html>"
    assert answer(b"[]", status=502).error == []
    assert not answer(b"{", status=502, end="upstream_error").terminated


def test_code_assist_puts_everything_into_an_envelope() -> None:
    for body in ({"response": WHOLE, "traceId": "t"}, sse({"response": WHOLE, "traceId": "t"})):
        found = answer(body)
        assert (texts(found), found.model, found.terminated) == (["hello"], "m-1", True)
        assert found.extra == {"createTime": "now", "envelope": {"traceId": "t"}}
    assert answer({"response": WHOLE}).extra["envelope"] == {}
    assert answer({**WHOLE, "response": {"x": 1}}).extra == {"createTime": "now", "response": {"x": 1}}


def test_labels_may_be_wrong() -> None:
    assert texts(answer(WHOLE, kind="text/event-stream")) == ["hello"]
    assert texts(answer(CHUNKS, kind="text/event-stream")) == ["hello"]
    body = sse(*CHUNKS)
    assert texts(
        read_answer(Response(200, [("content-type", "application/json")], body, "complete", 2), vertex=False)
    ) == ["hello"]
    assert texts(read_answer(Response(200, [], b"\r\n" + body, "complete", 2), vertex=False)) == ["hello"]


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[", b"5", b"null", b"{}", b"[]", b"[{}]", b"[5]", b'"x"', b'{"choices": []}', b'{"candidates": 5}',
     b'{"candidates": [5]}', b'{"candidates": [{"content": 5}]}', b"data: {}\n\n", b"data: 5\n\n", b"data: {\n\n",
     b"data: [DONE]\n\n", b":\n\n", b'data: {"candidates": {}}\n\n', b'{"candidates": [{"content": {"parts": [5]}}]}'],
)  # fmt: skip
def test_what_is_no_answer_is_unparseable_when_it_is_whole(body: bytes) -> None:
    kind = "text/event-stream" if body.startswith((b"data", b":")) else "application/json"
    with pytest.raises(Unparseable):
        answer(body, kind=kind)


@pytest.mark.parametrize("body", [b"{", b"[", b"[5", b'[{"candidates": 5}, {', b"data: 5\n\n", b'data: {"a', b": \n"])
def test_and_an_empty_answer_when_it_was_cut(body: bytes) -> None:
    kind = "text/event-stream" if body.startswith((b"data", b":")) else "application/json"
    found = answer(body, kind=kind, end="upstream_error")
    assert (found.choices, found.terminated, found.error) == ([], False, None)


def test_what_is_wrong_in_a_cut_stream_is_where_reading_stops() -> None:
    body = sse(CHUNKS[0], {"candidates": [{"content": {"parts": 5}}]}, CHUNKS[1])
    assert texts(answer(body, end="client_disconnect")) == ["he"]
    with pytest.raises(Unparseable):
        answer(body)


def test_empty_fields_say_nothing() -> None:
    found = answer(sse({**WHOLE, "modelVersion": "first"}, {"modelVersion": "", "responseId": None, "candidates": []}))
    assert (found.model, found.response_id) == ("first", "r")
    odd = answer({**WHOLE, "responseId": 5, "usageMetadata": [1]})
    assert (odd.response_id, odd.usage) == (None, None)
    assert odd.extra == {"responseId": 5, "usageMetadata": [1], "createTime": "now"}
