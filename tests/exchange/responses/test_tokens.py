"""Token ids in a Responses answer, and what keeps them from being trained on."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange._responses.tokens import FIELDS, tokens_of, with_ids, without_ids


def raw(*tokens: Any) -> list[dict[str, Any]]:
    return [{"type": "raw_message_tokens", "message": str(ids), "tokens": ids} for ids in tokens]


def test_ids_are_put_together_in_order() -> None:
    root = {"input_messages": raw([1, 2], [3]), "output_messages": raw([4], [5]), "usage": {"output_tokens": 2}}
    tokens = tokens_of(root)
    assert (tokens.prompt_ids, tokens.response_ids, tokens.logprobs, tokens.problem) == ([1, 2, 3], [4, 5], None, None)


def test_ids_that_usage_does_not_count_are_a_problem() -> None:
    root = {"input_messages": raw([1]), "output_messages": raw([4], [1, 4, 9], [5]), "usage": {"output_tokens": 2}}
    assert tokens_of(root).problem == "5 token ids came for 2 output tokens"


def test_without_usage_nothing_speaks_against_them() -> None:
    assert tokens_of({"input_messages": raw([1]), "output_messages": raw([2])}).problem is None


@pytest.mark.parametrize(
    "root",
    [
        {},
        {"input_messages": raw([1])},
        {"input_messages": [], "output_messages": []},
        {"input_messages": raw([1]), "output_messages": raw([])},
        {"input_messages": raw([1]), "output_messages": raw([True])},
        {"input_messages": raw([1]), "output_messages": raw([-1])},
        {"input_messages": raw([1]), "output_messages": raw([2**31])},
        {"input_messages": raw([1]), "output_messages": raw(["1"])},
        {"input_messages": raw([1]), "output_messages": [{"author": {"role": "assistant"}}]},  # Harmony
        {"input_messages": 3, "output_messages": [3]},
    ],
)
def test_what_is_no_list_of_ids_gives_none(root: dict[str, Any]) -> None:
    tokens = tokens_of(root)
    assert (tokens.prompt_ids, tokens.response_ids, tokens.problem) == (None, None, "the engine gave no token ids")
    assert without_ids(root, tokens) == {}


def test_ids_are_kept_once() -> None:
    root = {"input_messages": raw([1, 2], [3]), "output_messages": raw([4, 5])}
    tokens = tokens_of(root)
    counted = without_ids(root, tokens)
    assert [message["tokens"] for message in counted["input_messages"]] == [2, 1]
    assert tokens.prompt_ids is not None
    assert tokens.response_ids is not None
    ids = dict(zip(FIELDS, (tokens.prompt_ids, tokens.response_ids), strict=True))
    assert {field: with_ids(counted[field], ids[field]) for field in FIELDS} == root
