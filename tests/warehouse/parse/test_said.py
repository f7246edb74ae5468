"""Tags and counts, out of whatever was said."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.warehouse._parse.said import tags_of, token_counts


@pytest.mark.parametrize(
    ("metadata", "tags"),
    [
        ({"tags": ["a", "b", "a"]}, ["a", "b"]),
        ({"tags": ["x" * 200] + [str(n) for n in range(63)]}, ["x" * 200] + [str(n) for n in range(63)]),
        ({"tags": ["x" * 201]}, None),
        ({"tags": [str(n) for n in range(65)]}, None),
        ({"tags": ["a", 1]}, None),
        ({"tags": ["a", ""]}, None),
        ({"tags": "a"}, None),
        ({"tags": []}, None),
        ({"tags": None}, None),
        ({}, None),
        (None, None),
    ],
)
def test_tags(metadata: dict[str, Any] | None, tags: list[str] | None) -> None:
    assert tags_of(metadata) == tags


@pytest.mark.parametrize(
    ("usage", "counts"),
    [
        (None, (None, None, None, None)),
        ({"prompt_tokens": 5, "completion_tokens": 0}, (5, None, 0, None)),
        ({"input_tokens": 5, "input_tokens_details": {"cached_tokens": 3}}, (5, 3, None, None)),
        ({"output_tokens": 7, "output_tokens_details": {"reasoning_tokens": 6}}, (None, None, 7, 6)),
        ({"prompt_tokens": "5", "completion_tokens": True, "prompt_tokens_details": 3}, (None, None, None, None)),
        ({"prompt_tokens": 2**63, "completion_tokens": -1, "output_tokens": 4}, (None, None, 4, None)),
    ],
)
def test_counts(usage: dict[str, Any] | None, counts: tuple[int | None, ...]) -> None:
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")
    found = token_counts(None, usage)
    assert tuple(found) == names
    assert tuple(found.values()) == counts


def test_counts_of_a_dialect_with_words_of_its_own() -> None:
    usage = {"input_tokens": 5, "cache_read_input_tokens": 100, "output_tokens": 7}
    found = token_counts("anthropic.messages", usage)
    assert (found["input_tokens"], found["cached_input_tokens"], found["output_tokens"]) == (105, 100, 7)
