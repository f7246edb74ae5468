"""What an engine's own API gives, put together."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.exchange import End, Response, Unparseable
from stepwell.exchange._engine.reply import Outputs, ends, read_outputs

from ..conftest import sse


def read(body: Any, *, end: End = "complete", status: int | None = 200, kind: str = "") -> Outputs:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return read_outputs(Response(status, [("content-type", kind)], raw, end, 1))


def event(index: int, text: str, count: int, *ids: int) -> dict[str, Any]:
    return {"index": index, "text": text, "output_ids": list(ids), "meta_info": {"completion_tokens": count}}


def test_one_output_a_list_and_choices() -> None:
    one, two = {"text": "a"}, {"content": "b", "tokens": [1]}
    assert read(one) == Outputs({0: one}, terminated=True)
    assert read([one, two]) == Outputs({0: one, 1: two}, terminated=True)
    choices = read({"request_id": "r", "choices": [{"token_ids": [1]}]})
    assert choices == Outputs({0: {"token_ids": [1]}}, {"request_id": "r"}, terminated=True)
    assert read(one, kind="text/event-stream") == read(one)  # an object under a stream's label


def test_outputs_streamed_together_stay_apart() -> None:
    outputs = read(sse(event(1, "b", 1, 6), event(0, "a", 1, 5), event(1, "bd", 2, 6, 8), event(0, "ac", 2, 5, 7)))
    assert {index: (item["text"], item["output_ids"]) for index, item in outputs.items.items()} == {
        0: ("ac", [5, 7]),
        1: ("bd", [6, 8]),
    }
    outputs = read(sse(event(0, "a", 1, 5), event(0, "a", 2, 7)))  # the same text twice, of new tokens each
    assert (outputs.items[0]["text"], outputs.items[0]["output_ids"]) == ("aa", [5, 7])


@pytest.mark.parametrize(
    ("item", "ended"),
    [
        ({"stop": True}, True),
        ({"stop": False}, False),
        ({"finish_reason": "stop"}, True),
        ({"meta_info": {"finish_reason": {"type": "stop"}}}, True),
        ({"meta_info": {"finish_reason": None}}, False),
        ({"meta_info": 5}, False),
    ],
)
def test_when_an_output_ends(item: dict[str, Any], ended: bool) -> None:
    assert ends(item) == ended
    assert read(sse({"text": "a", **item}, done=False)).terminated == ended
    assert read(sse({"text": "a", **item})).terminated  # by its [DONE]


def test_a_stream_of_several_ends_with_all_of_them() -> None:
    first = {"index": 0, "content": "a", "stop": True}
    assert not read(sse(first, {"index": 1, "content": "b", "stop": False}, done=False)).terminated


def test_errors_and_silence() -> None:
    assert read({"error": {"code": 1}}, status=400) == Outputs(terminated=True, error={"code": 1})
    assert read({"error": "no"}) == Outputs(terminated=True, error="no")
    assert read(b"", end="upstream_error") == read(b"", status=None, end="upstream_error") == Outputs()
    for nothing in (b"", b"5", b"[5]", b"[]", b"{}", b'{"choices": []}', b"data: {\n\n"):
        with pytest.raises(Unparseable):
            read(nothing)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"upstream died", "upstream died"),
        (b'"CUDA out of memory"', "CUDA out of memory"),
        (b'{"message": "no"}', {"message": "no"}),
        (b'{"error": {"code": 500}}', {"code": 500}),
        (b"null", "an error event without a word"),
        (b"", "an error event without a word"),
    ],
)
@pytest.mark.parametrize("end", ["complete", "upstream_error"])
def test_an_event_that_calls_itself_an_error_is_one_whatever_it_says(data: bytes, error: Any, end: End) -> None:
    outputs = read(sse(event(0, "so far", 2, 5, 7), done=False) + b"event: error\ndata: %b\n\n" % data, end=end)
    assert (outputs.items[0]["text"], outputs.error, outputs.terminated) == ("so far", error, False)


@pytest.mark.parametrize("bad", [b"data: {\n\n", b"data: 5\n\n", b"data: {}\n\n"])
def test_another_event_that_cannot_be_read_is_a_fault_of_a_whole_stream_and_the_end_of_a_cut_one(bad: bytes) -> None:
    body = sse(event(0, "so far", 2, 5, 7), done=False) + bad
    with pytest.raises(Unparseable):
        read(body)
    assert read(body, end="client_disconnect") == read(body.removesuffix(bad), end="client_disconnect")


def test_a_long_stream_of_pieces_is_put_together_in_one_pass() -> None:
    piece = b'data: {"content": "%s", "tokens": [5], "stop": false}\n\n' % (b"x" * 100)
    item = read(piece * 50_000, end="upstream_error").items[0]
    assert (len(item["content"]), len(item["tokens"])) == (5_000_000, 50_000)
