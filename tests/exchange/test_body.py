"""JSON bodies, read as far as they go."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from stepwell.exchange import End, Response, Unparseable
from stepwell.exchange._body import (
    beside_error,
    is_whole,
    json_object,
    loosely,
    partial_body,
    partial_event,
    request_object,
    without,
)
from stepwell.exchange._sse import Event


def error_of(data: bytes) -> orjson.JSONDecodeError:
    with pytest.raises(orjson.JSONDecodeError) as raised:
        orjson.loads(data)
    return raised.value


def test_a_request_is_an_object() -> None:
    assert request_object(b' {"a": [1]}') == {"a": [1]}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the request is no JSON: "),
        (b'{"a": ', "the request is no JSON: "),
        (b"\xff", "the request is no JSON: "),
        (b"[{}]", "the request is no JSON object"),
        (b"null", "the request is no JSON object"),
    ],
)
def test_a_request_that_is_none(body: bytes, why: str) -> None:
    with pytest.raises(Unparseable, match=f"^{why}"):
        request_object(body)


def test_an_object_is_called_what_it_was_to_be() -> None:
    assert json_object(b"{}", "it") == {}
    with pytest.raises(Unparseable, match=r"^the event 'x' is no JSON object$"):
        json_object(b"3", "the event 'x'")


@pytest.mark.parametrize(
    ("end", "truncated", "whole"),
    [
        ("complete", False, True),
        ("complete", True, False),
        ("client_disconnect", False, False),
        ("upstream_error", False, False),
        ("aborted", False, False),
    ],
)
def test_what_is_whole(end: End, truncated: bool, whole: bool) -> None:
    assert is_whole(Response(200, [], b"{}", end, 1, truncated=truncated)) is whole


def test_an_answer_that_was_cut_keeps_its_text() -> None:
    body = b'{"a": "\xc3\xa4\xc3'
    assert partial_body(body, False, error_of(body)) == {"partial_body": '{"a": "ä\ufffd'}


def test_an_answer_that_came_whole_and_is_no_json_is_a_fault() -> None:
    error = error_of(b"<html>")
    with pytest.raises(Unparseable) as raised:
        partial_body(b"<html>", True, error)
    assert str(raised.value) == f"the response is no JSON: {error}"


@pytest.mark.parametrize("whole", [True, False])
def test_an_error_event_without_json_says_its_words(whole: bool) -> None:
    event = Event(b"too \xff busy", b"error")
    assert partial_event(event, whole, error_of(event.data)) == {"error": "too \ufffd busy"}


@pytest.mark.parametrize(
    ("event", "whole"),
    [
        (Event(b'{"a', complete=False), True),  # the transfer ended in order, the stream did not
        (Event(b'{"a', complete=False), False),
        (Event(b'{"a'), False),
        (Event(b"too bu", b"error", complete=False), True),
    ],
)
def test_an_event_that_was_cut_says_nothing(event: Event, whole: bool) -> None:
    assert partial_event(event, whole, error_of(event.data)) is None


@pytest.mark.parametrize("kind", [b"", b"message"])
def test_an_event_that_came_whole_and_is_no_json_is_a_fault(kind: bytes) -> None:
    error = error_of(b"{x}")
    with pytest.raises(Unparseable) as raised:
        partial_event(Event(b"{x}", kind), True, error)
    assert str(raised.value) == f"an event of the stream is no JSON: {error}"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"error": {"code": 1}, "id": "r"}', {"code": 1}),
        (b'{"error": "", "message": "m"}', {"error": "", "message": "m"}),
        (b'{"message": "m"}', {"message": "m"}),
        (b'["a"]', ["a"]),
        (b"bad \xff gateway", "bad \ufffd gateway"),
        (b"", "an error without a word"),
        (b"x" * 5000, "x" * 4096),
    ],
)
def test_what_an_error_says(body: bytes, said: Any) -> None:
    assert loosely(body) == said


@pytest.mark.parametrize(
    ("body", "beside"),
    [
        (b'{"error": {"code": 1}, "request_id": "r", "type": "error", "x": null}', {"request_id": "r"}),
        (b'{"request_id": "r"}', {}),  # all of it is the error
        (b'["error"]', {}),
        (b"error", {}),
    ],
)
def test_what_is_beside_an_error(body: bytes, beside: dict[str, Any]) -> None:
    assert beside_error(body, "type") == beside


def test_fields_that_are_neither_named_nor_null() -> None:
    assert without({"a": 1, "b": None, "c": 0, "d": ""}, "a", "x") == {"c": 0, "d": ""}
