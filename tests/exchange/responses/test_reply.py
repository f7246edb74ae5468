"""A Responses answer in each of its forms, whole, cut and broken."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.exchange import End, Response, Unparseable
from stepwell.exchange._responses.reply import Reply, read_reply

ITEM = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "hi"}]}
FINAL = {"id": "r", "object": "response", "status": "completed", "model": "m", "output": [ITEM], "usage": {"x": 1}}
CREATED = {"type": "response.created", "response": {**FINAL, "status": "in_progress", "output": [], "usage": None}}
DONE_ITEM = {"type": "response.output_item.done", "output_index": 0, "item": ITEM}
COMPLETED = {"type": "response.completed", "response": FINAL}


def reply(
    body: bytes, *, status: int | None = 200, end: End = "complete", kind: str = "", truncated: bool = False
) -> Reply:
    return read_reply(Response(status, [("content-type", kind)], body, end, 1, truncated=truncated))


def sse(*events: Any, line_end: str = "\n", named: bool = False) -> bytes:
    texts = []
    for event in events:
        if isinstance(event, str):
            texts.append(f"data: {event}")
        elif named:
            texts.append(f"event: {event['type']}{line_end}data: {json.dumps({**event, 'type': None})}")
        else:
            texts.append(f"data: {json.dumps(event)}")
    return "".join(text + line_end * 2 for text in texts).encode()


def frames(*events: Any, line_end: bytes = b"\n") -> bytes:
    return line_end.join(json.dumps(event).encode() for event in events)


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(FINAL).encode(),
        sse(CREATED, DONE_ITEM, COMPLETED),
        sse(CREATED, DONE_ITEM, COMPLETED, line_end="\r\n"),
        sse(CREATED, DONE_ITEM, COMPLETED, line_end="\r"),
        sse(CREATED, DONE_ITEM, COMPLETED, named=True),
        sse(CREATED, COMPLETED, "[DONE]"),
        sse(CREATED, DONE_ITEM, {"type": "response.completed", "response": {**FINAL, "output": []}}),
        sse(CREATED, DONE_ITEM, {"type": "response.done", "response": FINAL}),
        b": a comment\n\n" + sse({"type": "keepalive"}, CREATED, COMPLETED),
        b"\xef\xbb\xbf" + sse(CREATED, COMPLETED),
    ],
)
def test_every_form_says_the_same(body: bytes) -> None:
    found = reply(body)
    root = {key: value for key, value in FINAL.items() if key != "output"}
    assert (found.root, found.output, found.terminated, found.error) == (root, [ITEM], True, None)


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\n\n"])
@pytest.mark.parametrize(("status", "kind"), [(101, ""), (200, "Application/X-NDJSON; charset=utf-8")])
def test_frames_of_a_socket(line_end: bytes, status: int, kind: str) -> None:
    found = reply(frames(CREATED, DONE_ITEM, COMPLETED, line_end=line_end), status=status, kind=kind)
    assert (found.output, found.terminated) == ([ITEM], True)


def test_what_follows_the_terminal_event_is_not_read() -> None:
    assert reply(sse(CREATED, COMPLETED) + b"data: {cut\n\n", end="complete").terminated


def test_a_terminal_event_names_the_status_that_its_response_does_not() -> None:
    found = reply(sse({"type": "response.incomplete", "response": {"id": "r"}}))
    assert (found.status, found.terminated) == ("incomplete", True)
    assert reply(sse({"type": "response.failed"})).status == "failed"


@pytest.mark.parametrize(
    ("event", "error"),
    [
        ({"type": "error", "error": {"code": "x"}, "sequence_number": 2}, {"code": "x"}),
        ({"type": "error", "code": "x", "message": "m", "sequence_number": 2}, {"code": "x", "message": "m"}),
        ({"type": "error"}, "an error without a word"),
        ({"error": {"message": "m"}}, {"message": "m"}),
        ({"type": "response.failed", "response": {**FINAL, "error": {"code": "x"}}}, {"code": "x"}),
    ],
)
def test_errors_in_a_stream(event: dict[str, Any], error: Any) -> None:
    for found in (reply(sse(CREATED, event)), reply(frames(CREATED, event), status=101)):
        assert (found.error, found.terminated) == (error, True)
        assert found.root["id"] == "r"


def test_an_error_event_in_words() -> None:
    assert reply(b"event: error\ndata: overloaded\n\n").error == "overloaded"


def test_the_error_told_first_stands_and_the_other_is_kept() -> None:
    failed = {"type": "response.failed", "response": {**FINAL, "status": "failed", "error": {"code": "b"}}}
    found = reply(sse(CREATED, {"type": "error", "error": {"code": "a"}}, failed))
    assert (found.error, found.root["error"], found.status) == ({"code": "a"}, {"code": "b"}, "failed")


def test_events_of_other_kinds_are_kept() -> None:
    limits = {"type": "codex.rate_limits", "primary": 3}
    assert reply(sse(limits, CREATED, COMPLETED)).root["events"] == [limits]


@pytest.mark.parametrize("status", [None, 200])
def test_nothing_came(status: int | None) -> None:
    assert reply(b"", status=status, end="upstream_error") == Reply()


def test_an_error_status() -> None:
    found = reply(b'{"error": {"code": "x"}}', status=500)
    assert (found.error, found.terminated, found.output) == ({"code": "x"}, True, [])


def test_an_error_in_a_plain_answer() -> None:
    assert reply(b'{"error": {"code": "x"}}').error == {"code": "x"}
    assert reply(b'{"object": "error", "message": "m"}').error == {"object": "error", "message": "m"}


def test_an_answer_that_is_not_there_yet() -> None:
    found = reply(b'{"id": "r", "status": "queued"}')
    assert (found.status, found.terminated, found.streamed) == ("queued", False, False)


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_cut_stream_is_read_as_far_as_it_goes(cut: int) -> None:
    body = sse(CREATED, DONE_ITEM, COMPLETED)[: -cut * 20]
    for found in (reply(body, end="client_disconnect"), reply(body, truncated=True)):
        assert not found.terminated
        assert found.status == "in_progress"


@pytest.mark.parametrize("event", ["3", {"type": "response.completed", "response": {**FINAL, "output": 3}}])
def test_what_came_before_a_fault_of_a_cut_stream_stands(event: Any) -> None:
    body = sse(CREATED, DONE_ITEM, event)
    found = reply(body, end="client_disconnect")
    assert (found.output, found.terminated) == ([ITEM], False)
    with pytest.raises(Unparseable):
        reply(body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"hello",
        b"3",
        b"{}",
        b'{"output": 3}',
        b'{"choices": []}',
        b"data: 3\n\n",
        b"data: {\n\n",
        b"data: [DONE]\n\n",
        sse({"type": "response.created", "response": 3}),
        sse({"type": "response.completed", "response": {"output": 3}}),
        sse({"id": "chatcmpl", "choices": []}),
        sse({"type": "response.web_search_call.searching"}),
    ],
)
def test_what_is_whole_and_no_answer_is_unparseable(body: bytes) -> None:
    with pytest.raises(Unparseable):
        reply(body)
