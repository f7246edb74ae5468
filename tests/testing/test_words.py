from __future__ import annotations

import orjson
import pytest

from stepwell.testing import ByteTokenizer, Reply, ToolCall
from stepwell.testing._dialect import Unsayable
from stepwell.testing._sampling import sample
from stepwell.testing._words import (
    Piece,
    assistant,
    blocks_of,
    made_call,
    object_of,
    pieces_of,
    said,
    sse,
    text_part,
    tool_result,
)

TOKENIZER = ByteTokenizer()


def test_messages_are_what_a_chat_client_would_have_sent() -> None:
    assert said("user", [text_part("hi")]) == {"role": "user", "content": "hi"}
    assert assistant(["a", "b"]) == {"role": "assistant", "content": "ab"}
    assert assistant([], calls=[made_call("c", "f", {"é": 1})]) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"é": 1}'}}],
    }
    assert tool_result("c", {"grad": 28}) == {"role": "tool", "tool_call_id": "c", "content": '{"grad": 28}'}


def test_arguments_stay_the_letters_that_were_sampled() -> None:
    assert orjson.dumps({"input": object_of(ToolCall("f", '{"n":  1.50}'))}) == b'{"input":{"n":  1.50}}'
    assert orjson.dumps(object_of(ToolCall("f", ""))) == b"{}"
    for arguments in ("{", "[1]", "5"):
        with pytest.raises(Unsayable, match="'f'"):
            object_of(ToolCall("f", arguments))


@pytest.mark.parametrize("chunk_tokens", [1, 3, 100])
def test_pieces_are_in_order_and_say_it_all(chunk_tokens: int) -> None:
    calls = [ToolCall("f", '{"é": 1}', "c1"), ToolCall("g", "{}", "c2")]
    sampled = sample(Reply("Grüße 👋", calls, "hm ä"), [1], TOKENIZER, None)
    pieces = list(pieces_of(sampled, chunk_tokens))
    order = [(piece.kind, piece.call) for piece in pieces]
    assert list(dict.fromkeys(order)) == [
        ("reasoning", -1), ("content", -1), ("call", 0), ("arguments", 0), ("call", 1), ("arguments", 1),
    ]  # fmt: skip
    for kind, call, text in (("reasoning", -1, "hm ä"), ("content", -1, "Grüße 👋"), ("arguments", 0, '{"é": 1}')):
        assert "".join(piece.text for piece in pieces if (piece.kind, piece.call) == (kind, call)) == text
    assert Piece("call", "", 0) in pieces


def test_nothing_has_no_pieces() -> None:
    nothing = sample(Reply(finish_reason="length"), [1], TOKENIZER, None)
    assert list(pieces_of(nothing, 4)) == [] and list(blocks_of(nothing, 4)) == []


@pytest.mark.parametrize("chunk_tokens", [1, 3, 100])
def test_blocks_hold_the_pieces_that_belong_together(chunk_tokens: int) -> None:
    calls = [ToolCall("f", '{"é": 1}', "c1"), ToolCall("f", "{}", "c2")]
    sampled = sample(Reply("Grüße 👋", calls, "hm ä"), [1], TOKENIZER, None)
    blocks = [(kind, call, list(pieces)) for kind, call, pieces in blocks_of(sampled, chunk_tokens)]
    assert [(kind, call) for kind, call, _ in blocks] == [("reasoning", -1), ("content", -1), ("call", 0), ("call", 1)]
    assert [piece for _, _, pieces in blocks for piece in pieces] == list(pieces_of(sampled, chunk_tokens))
    assert ["".join(piece.text for piece in pieces) for _, _, pieces in blocks] == [
        "hm ä",
        "Grüße 👋",
        '{"é": 1}',
        "{}",
    ]


def test_events() -> None:
    assert (sse(b"{}"), sse(b"{}", "ping")) == (b"data: {}\n\n", b"event: ping\ndata: {}\n\n")
