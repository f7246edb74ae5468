"""Usage in the same words for every dialect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange import dialects, normalised

from .corpus import expected, names, needed


def counts(
    given: int | None, made: int | None, cached: int | None = None, thought: int | None = None
) -> dict[str, int]:
    words = {"input_tokens": given, "output_tokens": made, "cached_tokens": cached, "reasoning_tokens": thought}
    return {name: count for name, count in words.items() if count is not None}


CHAT: dict[str, Any] = {"prompt_tokens": 100, "completion_tokens": 30, "total_tokens": 130}
ANTHROPIC = {"input_tokens": 7, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 3, "output_tokens": 30}
CONVERSE = {
    "inputTokens": 7,
    "cacheReadInputTokens": 90,
    "cacheWriteInputTokens": 3,
    "outputTokens": 30,
    "totalTokens": 130,
}
GEMINI = {"promptTokenCount": 100, "cachedContentTokenCount": 90, "candidatesTokenCount": 10, "thoughtsTokenCount": 20}


def details(cached: int, thought: int) -> dict[str, Any]:
    return {
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": thought},
    }


@pytest.mark.parametrize(
    ("dialect", "usage", "wanted"),
    [
        ("openai.chat", CHAT, counts(100, 30)),
        ("openai.chat", {**CHAT, **details(90, 20)}, counts(100, 30, 90, 20)),
        ("openai.chat", {**CHAT, "prompt_tokens_details": None, "prompt_cache_hit_tokens": 90}, counts(100, 30, 90)),
        ("openai.chat", {**CHAT, "num_cached_tokens": 90}, counts(100, 30, 90)),
        ("openai.chat", {**CHAT, "cached_tokens": 90}, counts(100, 30, 90)),
        ("openai.completions", CHAT, counts(100, 30)),
        (
            "openai.responses",
            {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 90},
                "output_tokens": 30,
                "output_tokens_details": {"reasoning_tokens": 20},
            },
            counts(100, 30, 90, 20),
        ),
        ("engine.generate", {"prompt_tokens": 100, "completion_tokens": 30, "cached_tokens": 90}, counts(100, 30, 90)),
        (
            "engine.generate",  # llama.cpp: what lies in the cache afterwards is not what was read from it
            {"tokens_evaluated": 100, "tokens_predicted": 30, "tokens_cached": 129},
            counts(100, 30),
        ),
        ("anthropic.messages", ANTHROPIC, counts(100, 30, 90)),
        ("anthropic.messages", {"input_tokens": 100, "output_tokens": 30}, counts(100, 30)),
        (
            "anthropic.messages",
            {"input_tokens": 100, "output_tokens": 30, "output_tokens_details": {"thinking_tokens": 20}},
            counts(100, 30, None, 20),
        ),
        ("gemini", GEMINI, counts(100, 30, 90, 20)),
        ("gemini", {**GEMINI, "toolUsePromptTokenCount": 5}, counts(105, 30, 90, 20)),
        ("gemini", {"promptTokenCount": 100, "thoughtsTokenCount": 20}, counts(100, 20, None, 20)),
        ("bedrock.converse", CONVERSE, counts(100, 30, 90)),
        # With both of its spellings, as Converse answers, nothing counts twice.
        (
            "bedrock.converse",
            {**CONVERSE, "cacheReadInputTokenCount": 90, "cacheWriteInputTokenCount": 3},
            counts(100, 30, 90),
        ),
        ("bedrock.invoke", ANTHROPIC, counts(100, 30, 90)),
        ("bedrock.invoke", {"inputTokens": 10, "outputTokens": 3, "cacheReadInputTokenCount": 90}, counts(100, 3, 90)),
        ("bedrock.invoke", {"inputTokenCount": 100, "outputTokenCount": 30, "invocationLatency": 9}, counts(100, 30)),
        ("bedrock.invoke", {"prompt_token_count": 100, "generation_token_count": 30}, counts(100, 30)),
        ("bedrock.invoke", {"inputTextTokenCount": 100, "totalOutputTextTokenCount": 30}, counts(100, 30)),
        ("bedrock.invoke", {**CHAT, **details(90, 20)}, counts(100, 30, 90, 20)),
        (
            "bedrock.invoke",
            {
                "billed_units": {"input_tokens": 9, "output_tokens": 30},
                "tokens": {"input_tokens": 100, "output_tokens": 30},
            },
            counts(100, 30),
        ),
        ("bedrock.invoke", {"billed_units": {"input_tokens": 100, "output_tokens": 30}}, counts(100, 30)),
        ("ollama.chat", {"prompt_eval_count": 100, "eval_count": 30, "eval_duration": 10**9}, counts(100, 30)),
        ("ollama.generate", {"eval_count": 30}, counts(None, 30)),
        (None, CHAT, counts(100, 30)),
    ],
)
def test_what_each_api_counts(dialect: str | None, usage: dict[str, Any], wanted: dict[str, int]) -> None:
    assert normalised(dialect, usage) == wanted


@pytest.mark.parametrize(
    ("usage", "wanted"),
    [
        # The total says so, or a part that is more than its whole.
        ({**CHAT, "total_tokens": 150, **details(0, 20)}, counts(100, 50, 0, 20)),
        ({**CHAT, **details(0, 40)}, counts(100, 70, 0, 40)),
        ({**CHAT, **details(140, 0)}, counts(240, 30, 140, 0)),
        # It says otherwise, or nothing.
        ({**CHAT, "total_tokens": None, **details(100, 30)}, counts(100, 30, 100, 30)),
        ({**CHAT, "total_tokens": 500, **details(0, 20)}, counts(100, 30, 0, 20)),
    ],
)
def test_servers_that_count_a_part_beside_its_whole(usage: dict[str, Any], wanted: dict[str, int]) -> None:
    assert normalised("openai.chat", usage) == wanted


@pytest.mark.parametrize("usage", [None, {}, {"trafficType": "ON_DEMAND"}, {"cached_tokens": 5}])
def test_what_is_not_said_is_absent(usage: dict[str, Any] | None) -> None:
    for dialect in dialects():
        assert normalised(dialect, usage) == {}
    assert normalised("of.another.version", CHAT) == {}
    assert normalised("anthropic.messages", {"cache_read_input_tokens": 90, "output_tokens": 30}) == counts(
        None, 30, 90
    )


@pytest.mark.parametrize("count", [True, -1, 1.5, "5", None, [5], {"n": 5}])
def test_what_is_no_count_says_nothing(count: Any) -> None:
    assert normalised("openai.chat", {**CHAT, "prompt_tokens": count}) == counts(None, 30)
    assert normalised("anthropic.messages", {**ANTHROPIC, "cache_read_input_tokens": count}) == counts(10, 30)


def test_every_dialect_has_its_words() -> None:
    everything = {**CHAT, **ANTHROPIC, **CONVERSE, **GEMINI, "prompt_eval_count": 1, "eval_count": 1}
    for dialect in dialects():
        assert {"input_tokens", "output_tokens"} <= normalised(dialect, everything).keys()


FIELDS = [*CHAT, *ANTHROPIC, *CONVERSE, *GEMINI, "cached_tokens", "reasoning_tokens"]
values = st.one_of(
    st.integers(-1, 50), st.none(), st.text(max_size=2), st.dictionaries(st.sampled_from(FIELDS), st.integers(0, 50))
)


@settings(deadline=None)
@given(st.sampled_from([*dialects(), None]), st.dictionaries(st.sampled_from([*FIELDS, *details(0, 0)]), values))
def test_a_part_is_never_more_than_its_whole(dialect: str | None, usage: dict[str, Any]) -> None:
    found = normalised(dialect, usage)
    assert all(count >= 0 for count in found.values())
    if dialect != "gemini":  # whose parts are said apart, and are believed
        assert found.get("cached_tokens", 0) <= found.get("input_tokens", 0) or "input_tokens" not in found
        assert found.get("reasoning_tokens", 0) <= found.get("output_tokens", 0) or "output_tokens" not in found


SUMMED = {"openai_chat": "openai.chat", "openai_responses": "openai.responses", "bedrock_converse": "bedrock.converse"}
MISCOUNTED = {"openai_chat/pydantic-ai__test_openai-test_compatible_api_with_tool_calls_without_id__00"}
"""The server's total is neither."""
RECORDED = names(*SUMMED)


@needed(RECORDED)
def test_recorded_servers_total_is_the_sum_or_leaves_out_what_they_count_beside() -> None:
    compared = 0
    for name in sorted(set(RECORDED) - MISCOUNTED):
        usage = (expected()[name].get("result") or {}).get("usage") or {}
        found = normalised(SUMMED[name.partition("/")[0]], usage)
        total = usage.get("total_tokens", usage.get("totalTokens"))
        if total is not None:
            beside = (0, found.get("cached_tokens", 0), found.get("reasoning_tokens", 0))
            assert found["input_tokens"] + found["output_tokens"] - total in beside, name
            compared += 1
    assert compared > len(RECORDED) / 2
