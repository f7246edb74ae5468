"""A choice from the pieces of a stream."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange import Unparseable
from stepwell.exchange._chat.choice import StreamedChoice


def whole(*pieces: dict[str, Any]) -> dict[str, Any]:
    choice = StreamedChoice(3)
    for piece in pieces:
        choice.add(piece)
    return choice.whole()


def test_nothing_is_an_empty_message() -> None:
    assert whole() == whole({"index": 0, "delta": {}, "finish_reason": None}) == {"index": 3, "message": {}}


def test_pieces_of_texts_ids_and_logprobs_are_joined_and_the_last_of_other_fields_stands() -> None:
    entry = {"logprob": -1.0}
    first = {"text": "a", "reasoning": "r", "token_ids": [1], "logprobs": {"content": [entry], "refusal": None}, "x": 1}
    second = {"text": "b", "reasoning": "s", "token_ids": [2, 3], "logprobs": {"content": [entry]}, "x": 2}
    old = {"logprobs": {"tokens": ["t"]}, "prompt_token_ids": [9], "finish_reason": "stop"}
    assert whole(first, second, old, {"finish_reason": ""}) == {
        "index": 3,
        "text": "ab",
        "reasoning": "rs",
        "token_ids": [1, 2, 3],
        "prompt_token_ids": [9],
        "logprobs": {"content": [entry, entry], "tokens": ["t"]},
        "finish_reason": "stop",
        "x": 2,
        "message": {},
    }


def test_a_message_counts_where_no_delta_says_anything() -> None:
    message = {"role": "assistant", "content": "ab"}
    assert whole({"delta": {}, "message": message})["message"] == message
    assert whole({"delta": {"content": "a"}, "message": message})["message"] == {"content": "a"}


@pytest.mark.parametrize(
    "piece", [{"delta": 5}, {"delta": [1]}, {"message": "x"}, {"token_ids": 5}, {"delta": {"content": 5}}]
)
def test_what_the_api_does_not_promise_is_unparseable(piece: dict[str, Any]) -> None:
    with pytest.raises(Unparseable):
        whole(piece)
