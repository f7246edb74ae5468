"""Event streams, by the rules of the WHATWG format."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.exchange._sse import Event, looks_like_events, parse_events

ENDS = ["\n", "\r\n", "\r"]


def events(body: bytes) -> list[Event]:
    return list(parse_events(body))


@pytest.mark.parametrize("end", ENDS)
def test_every_line_end_counts(end: str) -> None:
    body = f"event: a{end}data: 1{end}{end}data: 2{end}{end}".encode()
    assert events(body) == [Event(b"1", b"a"), Event(b"2")]


def test_line_ends_may_be_mixed() -> None:
    assert events(b"data: 1\r\ndata: 2\rdata: 3\n\r\ndata: 4\r\r") == [Event(b"1\n2\n3"), Event(b"4")]


def test_only_the_three_line_ends_end_lines() -> None:
    text = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g".encode()  # what str.splitlines would split at
    assert events(b"data: " + text + b"\n\n") == [Event(text)]


def test_a_byte_order_mark_is_dropped_once() -> None:
    assert events(b"\xef\xbb\xbfdata: x\n\n") == [Event(b"x")]
    assert events(b"\xef\xbb\xbf\xef\xbb\xbfdata: x\n\n") == []


def test_comments_and_unknown_fields_say_nothing() -> None:
    assert events(b": keep-alive\n\n:\nid: 7\nretry: 10\nfoo: bar\ndata: x\n\n") == [Event(b"x")]


def test_data_lines_are_joined_and_lose_one_space_only() -> None:
    assert events(b"data:a\ndata:  b\ndata\ndata: c:d\n\n") == [Event(b"a\n b\n\nc:d")]


def test_the_type_of_an_event_without_data_does_not_pass_to_the_next() -> None:
    assert events(b"event: ping\n\ndata: x\n\n") == [Event(b"x")]


def test_an_event_whose_blank_line_never_came_is_incomplete() -> None:
    assert events(b"data: a\n\ndata: b") == [Event(b"a"), Event(b"b", complete=False)]
    assert events(b"data: a\n\ndata: b\n") == [Event(b"a"), Event(b"b", complete=False)]
    assert events(b"data: a\n\nevent: b\n") == [Event(b"a")]


@st.composite
def serialised(draw: st.DrawFn) -> tuple[list[Event], bytes]:
    """Events and one of the many ways to write them."""
    line = st.text(st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=8)
    name = st.text(st.characters(exclude_characters="\r\n:", codec="utf-8"), max_size=8)
    wanted: list[Event] = []
    lines: list[str] = []
    for _ in range(draw(st.integers(0, 4))):
        data = draw(st.lists(line, min_size=1, max_size=3))
        kind = draw(name)
        said = [f"data:{draw(space(part))}{part}" for part in data]
        said.insert(draw(st.integers(0, len(said))), f"event:{draw(space(kind))}{kind}")
        said.insert(draw(st.integers(0, len(said))), f":{draw(line)}")
        lines += [*said, *[""] * draw(st.integers(1, 2))]
        wanted.append(Event("\n".join(data).encode(), kind.encode()))
    end = draw(st.sampled_from(ENDS))
    mark = draw(st.sampled_from(["", "\ufeff"]))
    return wanted, (mark + "".join(text + end for text in lines)).encode()


def space(value: str) -> st.SearchStrategy[str]:
    return st.just(" ") if value.startswith(" ") else st.sampled_from(["", " "])


@given(serialised())
def test_what_is_written_is_read(case: tuple[list[Event], bytes]) -> None:
    wanted, body = case
    assert events(body) == wanted


@given(serialised(), st.data())
def test_a_cut_stream_gives_the_first_of_the_events(case: tuple[list[Event], bytes], data: st.DataObject) -> None:
    wanted, body = case
    found = events(body[: data.draw(st.integers(0, len(body)))])
    whole = [event for event in found if event.complete]
    assert whole == wanted[: len(whole)]
    assert found[: len(whole)] == whole  # at most the last one is incomplete
    assert len(found) <= len(whole) + 1


@pytest.mark.parametrize("end", ENDS)
def test_characters_are_never_split(end: str) -> None:
    text = json.dumps({"text": "naïve 🧵 日本"}, ensure_ascii=False)
    (event,) = events(f"data: {text}{end}{end}".encode())
    assert json.loads(event.data) == json.loads(text)


@pytest.mark.parametrize(
    ("content_type", "body", "answer"),
    [
        ("text/event-stream", b"", True),
        ("Text/Event-Stream; charset=utf-8", b"{}", True),
        ("application/json", b"data: {}\n\n", True),
        ("", b"\r\n: ping\n\ndata: {}\n\n", True),
        ("text/plain", b"\xef\xbb\xbfdata: {}\n\n", True),
        ("text/plain", b"event: x\ndata: {}\n\n", True),
        ("application/json", b'{"data": 1}', False),
        ("", b"", False),
    ],
)
def test_streams_are_known_by_type_or_by_their_first_line(content_type: str, body: bytes, answer: bool) -> None:
    assert looks_like_events(content_type, body) is answer


def test_a_big_stream_is_read_in_one_pass() -> None:
    """200 000 events and one of 8 MB: anything quadratic would never end here."""
    many: list[Any] = events(b"data: x\n\n" * 200_000)
    assert len(many) == 200_000
    lines = b"data: " + b"y" * 80 + b"\n"
    (one,) = events(lines * 100_000 + b"\n")
    assert one.data.count(b"\n") == 99_999
