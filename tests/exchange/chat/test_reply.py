"""A chat answer, plain and streamed, whole and cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stepwell.exchange import End, Response, Unparseable
from stepwell.exchange._chat.reply import Reply, read_reply

Stream = Callable[..., bytes]


def read(
    body: bytes, *, end: End = "complete", status: int | None = 200, kind: str = "", truncated: bool = False
) -> Reply:
    return read_reply(Response(status, [("content-type", kind)], body, end, 1, truncated=truncated))


def chunk(delta: Any = None, index: int | None = 0, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice: dict[str, Any] = {"delta": delta or {}, "finish_reason": finish, **more}
    return {"id": "r", "model": "m", "choices": [choice if index is None else {"index": index, **choice}]}


def test_a_plain_answer() -> None:
    reply = read(b'{"id": "r", "usage": null, "choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}')
    assert reply == Reply(
        root={"id": "r"},
        choices={0: {"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}},
        terminated=True,
    )


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"  ", b"<html>", b"[]", b"5", b"{}", b'{"choices": []}', b'{"choices": 5}', b'{"choices": [5]}'),
        *(b'{"choices": [{"message": "x"}]}', b'{"choices": [{"message": {}}', b'\xff{"choices": []}'),
    ],
)
def test_a_whole_answer_that_is_none_is_unparseable(body: bytes) -> None:
    with pytest.raises(Unparseable):
        read(body)


def test_plain_choices_that_share_a_number_are_all_kept() -> None:
    choice = b'{"index": 0, "message": {"content": "%s"}}'
    reply = read(b'{"choices": [%s, %s]}' % (choice % b"a", choice % b"b"))
    assert {index: choice["message"]["content"] for index, choice in reply.choices.items()} == {0: "a", 1: "b"}
    assert [choice["index"] for choice in reply.choices.values()] == [0, 1]


@pytest.mark.parametrize("end", ["client_disconnect", "upstream_error", "aborted"])
def test_part_of_a_plain_answer_is_kept_as_text(end: End) -> None:
    assert read(b'{"choices": [{"mess', end=end).root == {"partial_body": '{"choices": [{"mess'}
    assert read(b"", end=end) == read(b"", end=end, status=None) == Reply()
    assert not read(b'{"choices"', truncated=True).terminated


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b'{"error": {"message": "no"}}', {"message": "no"}),
        (b'{"detail": "no"}', {"detail": "no"}),
        (b"[1]", [1]),
        (b"Bad Gateway", "Bad Gateway"),
        (b"x" * 10_000, "x" * 4096),
    ],
)
def test_an_error_status_gives_its_error(body: bytes, error: Any) -> None:
    assert read(body, status=502) == Reply(terminated=True, error=error)


def test_an_error_inside_an_answer_of_status_200() -> None:
    assert read(b'{"error": {"code": 1}, "id": "r", "choices": []}') == Reply({"id": "r"}, {}, True, {"code": 1})
    assert read(b'{"object": "error", "message": "no"}').error == {"object": "error", "message": "no"}


def test_errors_inside_a_stream(stream: Stream) -> None:
    assert read(stream(chunk({"content": "a"}), {"error": {"code": 1}})).error == {"code": 1}
    assert read(stream(chunk({"content": "a"}), {"error": {"code": 1}, **chunk()})).choices[0]["message"] == {
        "content": "a"
    }
    assert read(b'event: error\ndata: {"message": "no"}\n\n').error == {"message": "no"}
    assert read(b'event: error\ndata: {"error": {"code": 1}}\n\n').error == {"code": 1}
    assert read(b"event: error\ndata: overloaded\n\n").error == "overloaded"
    assert read(b"event: error\ndata: []\n\n").error


def test_a_streamed_answer(stream: Stream) -> None:
    reply = read(stream(chunk({"role": "assistant", "content": "h"}), chunk({"content": "i"}), chunk(finish="stop")))
    assert reply == Reply(
        root={"id": "r", "model": "m"},
        choices={0: {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}},
        terminated=True,
    )


def test_a_character_cut_in_two_halves_is_whole_in_texts_and_arguments(stream: Stream) -> None:
    call = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": '{"a": "\ud83d'}}]}
    rest = {"tool_calls": [{"index": 0, "function": {"arguments": '\ude00"}'}}]}
    said = [{"content": "a\ud83d"}, {"content": "\ude00b\ud83d"}, call, rest]
    message = read(stream(*map(chunk, said), chunk(None, 0, "stop"))).choices[0]["message"]
    assert message["content"] == "a😀b\ufffd"
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a": "😀"}'


def test_half_a_character_in_a_plain_answer_is_none() -> None:
    body = b'{"id": "\\ud83d\\ude00", "choices": [{"message": {"content": "%s"}}]}'
    for sent, content in ((b"a\\ud83d", "a\ufffd"), (b"\\ud83d\\ude00b\\uDE00", "😀b\ufffd"), (b"\\u00e4", "ä")):
        reply = read(body % sent)
        assert (reply.root["id"], reply.choices[0]["message"]["content"]) == ("😀", content)
    assert read(b'{"error": "\\ude00"}').error == "\ufffd"


def test_what_came_before_something_absurd_stands_where_the_stream_was_cut(stream: Stream) -> None:
    absurd: list[Any] = [5, {"choices": 5}, {"choices": [{"delta": {"tool_calls": 5}}]}]
    for data in absurd:
        body = stream(chunk({"content": "a"}), data, done=False)
        assert read(body, end="client_disconnect").choices[0]["message"] == {"content": "a"}
        with pytest.raises(Unparseable):
            read(body)


def test_usage_comes_with_no_choice_and_its_last_value_counts(stream: Stream) -> None:
    usage = [{"id": "r", "choices": [], "usage": {"completion_tokens": number}} for number in (1, 2)]
    assert read(stream(chunk({"content": "a"}, finish="stop"), *usage)).root["usage"] == {"completion_tokens": 2}
    nothing: dict[str, Any] = {"choices": [], "usage": None}
    assert read(stream(chunk({"content": "a"}, finish="stop"), *usage, nothing)).root["usage"] == {
        "completion_tokens": 2
    }
    without = {"usage": {"completion_tokens": 1}, "choices": None}
    assert read(stream(chunk({"content": "a"}, finish="stop"), without)).root["usage"] == {"completion_tokens": 1}


def test_azures_empty_first_chunk_takes_nothing_away(stream: Stream) -> None:
    first = {"id": "", "model": "", "object": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]}
    reply = read(
        stream(first, chunk({"content": "a"}), chunk({"content": "b"}, finish="stop"), {"id": "other", "choices": []})
    )
    assert (reply.root["id"], reply.root["model"]) == ("r", "m")
    assert reply.root["prompt_filter_results"] == [{"prompt_index": 0}]
    assert reply.choices[0]["message"] == {"content": "ab"}


def test_choices_streamed_together(stream: Stream) -> None:
    both = {"choices": [{"index": 1, "delta": {"content": "B"}}, {"index": 0, "delta": {"content": "A"}}]}
    reply = read(
        stream(
            chunk({"content": "b"}, 1),
            chunk({"content": "a"}, 0),
            both,
            chunk(None, 0, "stop", token_ids=[1]),
            chunk(None, 1, "length", token_ids=[2]),
        )
    )
    assert [
        (i, c["message"]["content"], c["finish_reason"], c["token_ids"]) for i, c in sorted(reply.choices.items())
    ] == [
        (0, "aA", "stop", [1]),
        (1, "bB", "length", [2]),
    ]
    unnumbered = read(stream({"choices": [{"delta": {"content": "a"}}, {"delta": {"content": "b"}}]}))
    assert [choice["message"]["content"] for choice in unnumbered.choices.values()] == ["a", "b"]


def test_token_ids_and_logprobs_come_in_pieces(stream: Stream) -> None:
    def logprobs(*entries: int) -> dict[str, Any]:
        return {"content": [{"logprob": entry} for entry in entries], "refusal": None}

    reply = read(
        stream(
            {**chunk({"content": "a"}, token_ids=[1, 2], logprobs=logprobs(-1, -2)), "prompt_token_ids": [7, 8]},
            chunk({}, token_ids=None, logprobs=None),
            {**chunk({"content": "b"}, "0", token_ids=[3], logprobs=logprobs(-3)), "prompt_token_ids": None},  # type: ignore[arg-type]
            chunk({}, token_ids=[], finish="stop", stop_reason=5),
        )
    )
    assert reply.root["prompt_token_ids"] == [7, 8]
    assert reply.choices[0]["token_ids"] == [1, 2, 3]
    assert reply.choices[0]["logprobs"] == {"content": [{"logprob": -1}, {"logprob": -2}, {"logprob": -3}]}
    assert reply.choices[0]["stop_reason"] == 5


def test_a_message_repeated_beside_the_deltas_is_not_added_twice(stream: Stream) -> None:
    pieces = [chunk({"content": "1"}, message={"content": "1"}), chunk({"content": "2"}, message={"content": "12"})]
    assert read(stream(*pieces)).choices[0]["message"] == {"content": "12"}
    alone = [{"choices": [{"index": 0, "message": {"content": text}}]} for text in ("1", "12")]
    assert read(stream(*alone)).choices[0]["message"] == {"content": "12"}


def test_an_empty_finish_reason_takes_none_away(stream: Stream) -> None:
    assert read(stream(chunk(finish="tool_calls"), chunk(finish=""))).choices[0]["finish_reason"] == "tool_calls"


def test_when_a_stream_is_over(stream: Stream) -> None:
    said = chunk({"content": "a"})
    assert read(stream(said)).terminated  # [DONE]
    assert not read(stream(said, done=False)).terminated
    assert read(stream(said, chunk(finish="stop"), done=False)).terminated
    assert not read(stream(said, chunk({"content": "b"}, 1), chunk(finish="stop"), done=False)).terminated
    assert read(stream(said)[:-2]).terminated  # [DONE] without its blank line
    assert read(stream(said) + b"data: not for us\n\n").choices[0]["message"] == {"content": "a"}


def test_keep_alives_say_nothing(stream: Stream) -> None:
    body = b": ping\n\ndata:\n\ndata: \n\n" + stream(chunk({"content": "a"}, finish="stop"))
    assert read(body).choices[0]["message"] == {"content": "a"}


def test_a_stream_of_choices_alone_is_a_stream(stream: Stream) -> None:
    assert read(stream({"choices": [{"delta": {"content": "a"}}]})).choices[0]["message"] == {"content": "a"}


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"[DONE]",
            b"{",
            b"no json",
            b"5",
            b"[]",
            b"null",
            b'"x"',
            b'{"choices": 5}',
            b'{"choices": {}}',
            b'{"choices": "x"}',
        ),
        *(
            b'{"choices": [5]}',
            b'{"choices": [{"delta": 5}]}',
            b'{"choices": [{"delta": [1]}]}',
            b'{"choices": [{"token_ids": 5}]}',
        ),
        *(
            b'{"choices": [{"message": 5}]}',
            b'{"choices": [{"delta": {"tool_calls": 5}}]}',
            b"\xff\xfe",
            b'{"id": "\\ud800"}',
        ),
    ],
)
def test_a_stream_that_is_none_is_unparseable(data: bytes) -> None:
    with pytest.raises(Unparseable):
        read(b"data: " + data + b"\n\ndata: [DONE]\n\n")


def test_an_empty_stream_is_unparseable_and_one_that_only_began_is_not(stream: Stream) -> None:
    with pytest.raises(Unparseable):
        read(b"", kind="text/event-stream")
    begun = read(stream({"id": "r", "choices": []}, done=False))
    assert (begun.root, begun.choices, begun.terminated) == ({"id": "r"}, {}, False)
    with pytest.raises(Unparseable):
        read(stream({"id": "r", "choices": []}))  # over, and not a word


@pytest.mark.parametrize("end", ["complete", "client_disconnect", "upstream_error", "aborted"])
def test_a_stream_cut_anywhere_gives_the_beginning(stream: Stream, end: End) -> None:
    body = stream(
        chunk({"role": "assistant", "content": "naïve 🧵 "}), chunk({"content": "日本"}),
        chunk({"tool_calls": [{"index": 0, "id": "a", "function": {"name": "f", "arguments": '{"a":'}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": "1}"}}]}), chunk(finish="tool_calls"),
    )  # fmt: skip
    whole = read(body)
    finished = body.index(b'"tool_calls"}]}\n') + len(b'"tool_calls"}]}')
    for cut in range(len(body)):
        try:
            reply = read(body[:cut], end=end, kind="text/event-stream")
        except Unparseable:
            assert end == "complete" and cut < body.index(b"\n")  # not one event
            continue
        message = reply.choices[0]["message"] if reply.choices else {}
        assert whole.choices[0]["message"]["content"].startswith(message.get("content", ""))
        for call in message.get("tool_calls", ()):
            assert '{"a":1}'.startswith(call["function"]["arguments"])
        assert reply.terminated == (cut >= finished)


def test_a_big_stream_is_put_together_in_one_pass(stream: Stream) -> None:
    body = stream(*[chunk({"content": "word "}, token_ids=[1]) for _ in range(1000)], done=False) * 100
    reply = read(body, end="client_disconnect")
    assert len(reply.choices[0]["message"]["content"]) == 500_000
    assert len(reply.choices[0]["token_ids"]) == 100_000
