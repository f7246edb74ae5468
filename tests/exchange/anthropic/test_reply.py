"""Answers by their bytes: plain ones, streams, errors, and what was cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.exchange import End, Response, Unparseable
from stepwell.exchange._anthropic.reply import answer_from_body, answer_from_events, answer_of_response
from stepwell.exchange._generation import Answer, Choice

BODY: dict[str, Any] = {
    "id": "msg",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "naïve 🧵"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 5},
}
START: dict[str, Any] = {"type": "message_start", "message": {**BODY, "content": [], "stop_reason": None}}
OPEN = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
TEXTS = [
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    for text in ("naï", "ve ", "🧵")
]
CLOSE = {"type": "content_block_stop", "index": 0}
END = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}
OVER = {"type": "message_stop"}
OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def sse(*events: dict[str, Any], named: bool = True) -> bytes:
    """Events as a stream, in UTF-8 and not escaped."""
    heads = (f"event: {event['type']}\n" if named else "" for event in events)
    made = (f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)
    return "".join(head + data for head, data in zip(heads, made, strict=True)).encode()


STREAM = sse(START, {"type": "ping"}, OPEN, *TEXTS, CLOSE, END, OVER)


def read(
    body: bytes, *, status: int | None = 200, end: End = "complete", truncated: bool = False, kind: str = ""
) -> Answer:
    stream = body.startswith((b"event:", b"data:"))
    headers = [("content-type", kind or ("text/event-stream" if stream else "application/json"))]
    return answer_of_response(Response(status, headers, body, end, 2, truncated=truncated))


def said(answer: Answer) -> str:
    return "".join(part.get("text", "") for choice in answer.choices for part in choice.message["content"])


def test_a_plain_answer_and_the_stream_of_it_are_the_same() -> None:
    wanted = Answer(
        choices=[
            Choice({"role": "assistant", "content": [{"type": "text", "text": "naïve 🧵"}]}, finish_reason="end_turn")
        ],
        model="claude",
        response_id="msg",
        usage={"input_tokens": 3, "output_tokens": 5},
        terminated=True,
    )
    assert read(json.dumps(BODY).encode()) == read(STREAM) == wanted


def test_what_is_not_modelled_is_kept() -> None:
    details = {"type": "refusal"}
    body = {**BODY, "stop_reason": "refusal", "stop_sequence": "x", "stop_details": details, "container": {"id": "c"}}
    answer = answer_from_body({**body, "nothing": None})
    assert answer.extra == {"container": {"id": "c"}}
    assert answer.choices[0].extra == {"stop_sequence": "x", "stop_details": details}


@pytest.mark.parametrize(
    ("reason", "cut"),
    [
        ("max_tokens", True),
        ("model_context_window_exceeded", True),
        ("end_turn", False),
        ("pause_turn", False),
        ("refusal", False),
        (None, False),
    ],
)
def test_which_reasons_are_a_limit_of_length(reason: str | None, cut: bool) -> None:
    (choice,) = answer_from_body({**BODY, "stop_reason": reason}).choices
    assert (choice.finish_reason, choice.cut) == (reason, cut)


def test_content_that_is_a_text_or_nothing() -> None:
    assert said(answer_from_body({**BODY, "content": "plain"})) == "plain"
    (choice,) = answer_from_body({**BODY, "content": None, "stop_reason": "refusal"}).choices
    assert choice.message == {"role": "assistant", "content": []}


@pytest.mark.parametrize(
    "body",
    [b"", b" ", b"{", b"[]", b"5", b"null", b"no json", b"\xff", b"{}", b'{"content": 5, "stop_reason": "x"}', b'{"content": [5]}',
     b'{"content": null}', b'{"completion": "x", "stop_reason": "stop_sequence", "stop": "y"}' b"x", b'{"id": "\\ud800"}'],
)  # fmt: skip
def test_a_whole_answer_that_is_none_is_unparseable(body: bytes) -> None:
    with pytest.raises(Unparseable):
        read(body)


@pytest.mark.parametrize("end", ["client_disconnect", "upstream_error", "aborted"])
def test_part_of_a_plain_answer_is_kept_as_text(end: End) -> None:
    assert read(b'{"content": [{"ty', end=end) == Answer(extra={"partial_body": '{"content": [{"ty'})
    assert read(b"", end=end) == read(b" ", end=end) == read(b"", end=end, status=None) == Answer()
    assert read(b'{"content"', truncated=True) == Answer(extra={"partial_body": '{"content"'})


@pytest.mark.parametrize(
    ("body", "error", "extra"),
    [
        (b'{"type": "error", "error": {"type": "not_found_error"}, "request_id": "r"}', {"type": "not_found_error"}, {"request_id": "r"}),
        (b'{"detail": "no"}', {"detail": "no"}, {}),
        (b"Bad Gateway", "Bad Gateway", {}),
        (b"[1]", [1], {}),
    ],
)  # fmt: skip
def test_an_error_status_gives_its_error(body: bytes, error: Any, extra: dict[str, Any]) -> None:
    assert read(body, status=529) == Answer(terminated=True, error=error, extra=extra)
    assert not read(body, status=529, end="upstream_error").terminated


def test_an_error_inside_an_answer_of_status_200() -> None:
    plain = json.dumps({**OVERLOADED, "request_id": "r"}).encode()
    wanted = Answer(terminated=True, error=OVERLOADED["error"], extra={"request_id": "r"})
    assert read(plain) == read(plain, kind="text/event-stream") == wanted
    assert answer_from_body({"error": {"code": 1}}).error == {"code": 1}
    assert answer_from_body({"type": "error", "message": "m"}).error == {"message": "m"}


def test_an_error_event_keeps_what_had_come() -> None:
    answer = read(sse(START, OPEN, TEXTS[0], OVERLOADED))
    assert (said(answer), answer.error, answer.terminated) == ("naï", OVERLOADED["error"], False)
    assert answer.response_id == "msg" and answer.choices[0].finish_reason is None
    alone = read(sse(OVERLOADED))
    assert (alone.choices, alone.error) == ([], OVERLOADED["error"])
    assert read(b"event: error\ndata: overloaded\n\n").error == "overloaded"
    assert read(b"event: error\ndata: [1]\n\n").error == [1]
    assert read(b'event: error\ndata: {"error": {"code": 1}}\n\n').error == {"code": 1}


@pytest.mark.parametrize(
    ("events", "terminated"),
    [
        ([START, OPEN, *TEXTS, CLOSE, END, OVER], True),
        ([START, OPEN, *TEXTS, CLOSE, END], True),  # compatible servers leave the last event out
        ([START, OPEN, *TEXTS, CLOSE, OVER], True),
        ([START, OPEN, *TEXTS, CLOSE], False),
        ([START, OPEN, *TEXTS], False),
        ([START], False),
    ],
)
def test_when_a_stream_is_over(events: list[dict[str, Any]], terminated: bool) -> None:
    answer = read(sse(*events))
    assert answer.terminated == terminated
    assert answer.choices[0].finish_reason == ("end_turn" if END in events else None)
    done = read(sse(*events) + b"data: [DONE]\n\n" + sse(*TEXTS))
    assert done.terminated and said(done) == said(answer)


def test_a_type_may_be_missing_beside_its_name() -> None:
    lines = STREAM.replace(b'"type": "message_start", ', b"").replace(b'"type": "content_block_delta", ', b"")
    assert lines != STREAM and read(lines) == read(STREAM)
    unnamed = sse(START, OPEN, *TEXTS, CLOSE, END, OVER, named=False)
    assert read(unnamed) == read(STREAM)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_and_keep_alives_say_nothing(end: bytes) -> None:
    body = b": keep-alive\n\ndata:\n\n" + STREAM.replace(b"data: ", b"data:") + b": end\n\n"
    assert read(body.replace(b"\n", end), kind="text/event-stream") == read(STREAM)
    assert read(STREAM.replace(b"\n", end), kind="application/json") == read(STREAM)  # mislabelled


@pytest.mark.parametrize("end", ["client_disconnect", "upstream_error", "aborted"])
def test_a_stream_cut_anywhere_gives_the_beginning(end: End) -> None:
    call = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    arguments = [
        {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": text}}
        for text in ('{"a', '": "ü"}')
    ]
    calling = {"type": "content_block_start", "index": 1, "content_block": call}
    body = sse(START, OPEN, *TEXTS, CLOSE, calling, *arguments, {**CLOSE, "index": 1}, END, OVER)
    finished = body.index(b'"output_tokens": 5}}\n\nevent: message_stop') + len(b'"output_tokens": 5}}')
    for cut in range(len(body)):
        answer = read(body[:cut], end=end, kind="text/event-stream")
        parts = answer.choices[0].message["content"] if answer.choices else []
        assert "naïve 🧵".startswith("".join(part["text"] for part in parts if part["type"] == "text"))
        assert all('{"a": "ü"}'.startswith(part["arguments"]) for part in parts if part["type"] == "tool_call")
        assert answer.terminated == (cut >= finished)
        assert [choice.finish_reason for choice in answer.choices if choice.finish_reason] == ["end_turn"] * (
            cut >= finished
        )


def test_a_stream_that_broke_off_in_an_event_is_no_fault_of_the_servers() -> None:
    answer = read(STREAM[: STREAM.index(b'"ve "')])
    assert (said(answer), answer.terminated) == ("naï", False)


@pytest.mark.parametrize(
    "data",
    [
        b"{", b"no json", b"5", b"[]", b"null", b'"x"', b"\xff\xfe", b'{"type": "ping"}', b'{"type": "new"}', b'{"id": "\\ud800"}',
        b'{"type": "message_start", "message": 5}',
        b'{"type": "content_block_start", "index": 0, "content_block": 5}',
        b'{"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}}',
    ],
)  # fmt: skip
def test_a_whole_stream_that_is_none_is_unparseable(data: bytes) -> None:
    body = b"data: " + data + b"\n\n"
    with pytest.raises(Unparseable):
        read(body)
    assert said(read(body, end="client_disconnect")) == ""


def test_an_event_that_cannot_be_read_is_kept_where_the_stream_was_cut() -> None:
    strange = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": 5}}
    answer = read(sse(START, OPEN, TEXTS[0], strange), end="client_disconnect")
    assert (said(answer), answer.extra) == ("naï", {"events": [strange]})
    scalar = read(sse(START) + b"event: new\ndata: 5\n\n", end="upstream_error")
    assert scalar.extra == {"events": [{"type": "new", "data": 5}]}


def test_an_empty_stream_is_unparseable() -> None:
    for body in (b"", b": ping\n\n", sse({"type": "ping"}), b"data: [DONE]\n\n"):
        with pytest.raises(Unparseable, match="no message"):
            read(body, kind="text/event-stream")


def test_events_may_come_from_elsewhere() -> None:
    """Bedrock's frames hold the same events."""
    metrics: dict[str, Any] = {**OVER, "amazon-bedrock-invocationMetrics": {"inputTokenCount": 3}}
    events: list[dict[str, Any]] = [START, OPEN, *TEXTS, CLOSE, END, metrics]
    answer = answer_from_events(iter(events), whole=True)
    assert (said(answer), answer.terminated) == ("naïve 🧵", True)
    assert answer.extra == {"amazon-bedrock-invocationMetrics": {"inputTokenCount": 3}}
    with pytest.raises(Unparseable, match="no message"):
        answer_from_events([], whole=True)
    assert answer_from_events([], whole=False) == Answer()
