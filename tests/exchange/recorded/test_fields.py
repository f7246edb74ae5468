"""Headers, bodies and times as recorders write them."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange import NotAnExchange
from stepwell.exchange._recorded.fields import as_bytes, as_headers, as_ns, as_status, without_codings


@pytest.mark.parametrize(
    "recorded",
    [
        {"A": "1", "b": ["2", "3"]},
        [["A", "1"], ["b", "2"], ["b", "3"]],
        [("A", "1"), ("b", ["2", "3"])],
        [{"name": "A", "value": "1"}, {"name": "b", "value": "2"}, {"name": "b", "value": "3", "comment": ""}],
    ],
)
def test_headers_are_pairs_in_their_order(recorded: Any) -> None:
    assert as_headers(recorded) == [("A", "1"), ("b", "2"), ("b", "3")]


def test_odd_header_values_are_texts() -> None:
    assert as_headers({"length": 12, "none": None}) == [("length", "12"), ("none", "")]
    assert as_headers(None) == []


@pytest.mark.parametrize("recorded", ["a: b", 7, ["a"], [["a", "b", "c"]], [{"value": "x"}], [[1, "b"]]])
def test_what_are_no_headers_is_said(recorded: Any) -> None:
    with pytest.raises(NotAnExchange, match="headers"):
        as_headers(recorded)


def test_bodies() -> None:
    assert as_bytes(None, "it") == b""
    assert as_bytes("grüß", "it") == "grüß".encode()
    assert as_bytes("AP8=", "it", is_base64=True) == b"\x00\xff"
    assert as_bytes({"a": [1]}, "it") == b'{"a":[1]}'
    assert as_bytes("half \ud83d", "it") == b"half ?"


@pytest.mark.parametrize("recorded", ["A", 5, ["QQ=="], "ü"])
def test_what_is_no_base64_is_said(recorded: Any) -> None:
    with pytest.raises(NotAnExchange, match="its body is no base64"):
        as_bytes(recorded, "its body", is_base64=True)


@pytest.mark.parametrize(
    ("recorded", "status"), [(200, 200), ("404", 404), (0, None), (None, None), (True, None), ("completed", None)]
)
def test_statuses(recorded: Any, status: int | None) -> None:
    assert as_status(recorded) == status


def test_times_keep_their_microseconds() -> None:
    assert as_ns("1970-01-01T00:00:01.000250Z") == 1_000_250_000
    assert as_ns("1970-01-01T02:00:01+02:00") == 1_000_000_000
    assert as_ns("1970-01-01T00:00:01") == 1_000_000_000
    assert [as_ns(value) for value in ("yesterday", None, 12, "")] == [0, 0, 0, 0]


def test_codings_that_were_undone_are_left_out() -> None:
    assert without_codings([("Content-Encoding", "br"), ("content-type", "x")]) == [("content-type", "x")]
