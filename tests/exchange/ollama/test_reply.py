"""Ollama's answers: one object or lines, whole and cut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import End, Response, Unparseable
from stepwell.exchange._generation import Answer
from stepwell.exchange._ollama.reply import read_answer


def read(body: bytes, *, end: End = "complete", status: int | None = 200, generate: bool = False) -> Answer:
    return read_answer(Response(status, [], body, end, 1), generate=generate)


def chunk(**message: Any) -> dict[str, Any]:
    return {"model": "q", "message": {"role": "assistant", **message}, "done": False}


LAST = {
    "model": "q",
    "message": {"role": "assistant", "content": ""},
    "done": True,
    "done_reason": "stop",
    "eval_count": 2,
}
STREAM = "\n".join(map(json.dumps, [chunk(content="a"), chunk(thinking="t"), chunk(content="ü🧵"), LAST])).encode()


def said(answer: Answer) -> list[tuple[str, str]]:
    return [(part["type"], part["text"]) for choice in answer.choices for part in choice.message["content"]]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r", b"\n\n", b"\n \n", b"\r\n\r\n"])
def test_lines_end_in_any_way(end: bytes) -> None:
    for body in (STREAM.replace(b"\n", end), end + STREAM.replace(b"\n", end) + end):
        answer = read(body)
        assert said(answer) == [("reasoning", "t"), ("text", "aü🧵")]
        assert (answer.terminated, answer.usage, answer.choices[0].finish_reason) == (True, {"eval_count": 2}, "stop")


@settings(max_examples=60)
@given(st.integers(0, len(STREAM) - 1), st.sampled_from(["client_disconnect", "upstream_error"]))
def test_cut_anywhere_it_is_what_came_in_whole_lines(place: int, end: End) -> None:
    answer = read(STREAM[:place], end=end)
    came = [json.loads(line) for line in STREAM[:place].split(b"\n")[:-1]]
    last = STREAM[:place].split(b"\n")[-1]
    came += [json.loads(last)] if last.endswith(b"}") and last in STREAM.split(b"\n") else []
    texts = "".join(line["message"].get("content", "") for line in came)
    assert "".join(text for kind, text in said(answer) if kind == "text") == texts
    assert not answer.terminated and all(choice.finish_reason is None for choice in answer.choices)


def test_logprobs_and_images_come_in_pieces_and_are_kept() -> None:
    pieces = [{**chunk(content=text), "logprobs": [{"token": text, "logprob": -1}]} for text in "ab"]
    answer = read("\n".join(map(json.dumps, [*pieces, chunk(images=["eA=="]), LAST])).encode())
    assert answer.choices[0].extra == {"logprobs": [{"token": "a", "logprob": -1}, {"token": "b", "logprob": -1}]}
    assert [part["type"] for part in answer.choices[0].message["content"]] == ["image", "text"]


def test_the_fields_of_a_generation() -> None:
    body = {"model": "q", "response": "a", "thinking": "t", "done": True, "context": [1], "total_duration": 5, "x": 1}
    answer = read(json.dumps(body).encode(), generate=True)
    assert said(answer) == [("reasoning", "t"), ("text", "a")]
    assert (answer.usage, answer.extra, answer.terminated) == ({"total_duration": 5}, {"context": [1], "x": 1}, True)


@pytest.mark.parametrize("body", [b"", b" \n", b"<html>", b"[]", b"5\n5", b"{}", b'{"model": "q"}', b'{"message": 5}',
                                  b'{"message": {"content": 5}}', b'{"message": {"tool_calls": 5}}',
                                  b'{"message": {}}\n{"mess\n', b'{"response": "a", "done": false}'])  # fmt: skip
def test_a_whole_answer_that_is_none_is_unparseable(body: bytes) -> None:
    with pytest.raises(Unparseable):
        read(body)


def test_what_came_before_something_absurd_stands_where_the_stream_was_cut() -> None:
    for line in (b"5", b'{"message": 5}', b'{"message": {"content": 5}}'):
        body = json.dumps(chunk(content="a")).encode() + b"\n" + line + b"\n"
        assert said(read(body, end="client_disconnect")) == [("text", "a")]
        with pytest.raises(Unparseable):
            read(body)


def test_errors_and_silence() -> None:
    assert read(b'{"error": "no"}', status=404) == Answer(terminated=True, error="no")
    assert read(b"bad gateway", status=502).error == "bad gateway"
    assert read(b'{"error": "no"}').error == "no"
    assert read(b"", end="upstream_error") == read(b"", status=None, end="upstream_error") == Answer()


def test_a_long_stream_is_put_together_in_one_pass() -> None:
    """100 000 lines of 100 characters: adding strings up would copy 500 GB."""
    line = json.dumps(chunk(content="x" * 100)).encode() + b"\n"
    answer = read(line * 100_000 + json.dumps(LAST).encode())
    assert len(said(answer)[0][1]) == 10_000_000
