"""Usage in the same words for every dialect.

What the provider counted is kept as it came (`Step.usage`). This is what it means: derived from that alone, so that it can be derived
again. The words are OpenAI's and those of OpenTelemetry's GenAI conventions: input has what was read from a cache in it, and output
what was thought.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class _Words:
    """Under which names one API has its counts; the first that is there counts. A dot leads into an object."""

    input: tuple[str, ...]
    output: tuple[str, ...]
    cached: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    beside_input: tuple[tuple[str, ...], ...] = ()
    """Counts that the API keeps apart from its input, and are of it."""
    beside_output: tuple[tuple[str, ...], ...] = ()


# Servers of these APIs that are not OpenAI's count some parts beside the whole (xAI, OpenRouter for Gemini): see `_counts`.
_OPENAI = _Words(
    # llama.cpp's own API: `tokens_evaluated` is the whole prompt; its `tokens_cached` is how full the cache is, no part of that.
    input=("prompt_tokens", "input_tokens", "tokens_evaluated"),
    output=("completion_tokens", "output_tokens", "tokens_predicted"),
    cached=(
        *("prompt_tokens_details.cached_tokens", "input_tokens_details.cached_tokens"),
        *("prompt_cache_hit_tokens", "num_cached_tokens", "cached_tokens"),  # DeepSeek; Mistral; Moonshot and SGLang
    ),
    reasoning=(
        *("completion_tokens_details.reasoning_tokens", "output_tokens_details.reasoning_tokens"),
        "reasoning_tokens",
    ),
)
_READ = ("cache_read_input_tokens",)
_ANTHROPIC = _Words(
    input=("input_tokens",),
    output=("output_tokens",),
    cached=_READ,
    reasoning=("output_tokens_details.thinking_tokens",),
    beside_input=(_READ, ("cache_creation_input_tokens",)),
)
_THOUGHT = ("thoughtsTokenCount",)
_GEMINI = _Words(
    input=("promptTokenCount",),
    output=("candidatesTokenCount",),
    cached=("cachedContentTokenCount",),
    reasoning=_THOUGHT,
    beside_input=(("toolUsePromptTokenCount",),),
    beside_output=(_THOUGHT,),
)
_AWS_READ = ("cacheReadInputTokens", "cacheReadInputTokenCount")
_AWS = _Words(  # Converse and Nova; the metrics at the end of a stream; Llama; Titan
    input=("inputTokens", "inputTokenCount", "prompt_token_count", "inputTextTokenCount"),
    output=("outputTokens", "outputTokenCount", "generation_token_count", "totalOutputTextTokenCount"),
    cached=_AWS_READ,
    beside_input=(_AWS_READ, ("cacheWriteInputTokens", "cacheWriteInputTokenCount")),
)
_COHERE = _Words(
    input=("tokens.input_tokens", "billed_units.input_tokens"),
    output=("tokens.output_tokens", "billed_units.output_tokens"),
)
_OLLAMA = _Words(input=("prompt_eval_count",), output=("eval_count",))

_BY_DIALECT: dict[str | None, tuple[_Words, ...]] = {
    None: (_OPENAI,),
    "openai.chat": (_OPENAI,),
    "openai.responses": (_OPENAI,),
    "openai.completions": (_OPENAI,),
    "engine.generate": (_OPENAI,),
    "anthropic.messages": (_ANTHROPIC,),
    "gemini": (_GEMINI,),
    "bedrock.converse": (_AWS,),
    "bedrock.invoke": (_AWS, _ANTHROPIC, _OPENAI, _COHERE),  # the models' own words, which differ in their names
    "ollama.chat": (_OLLAMA,),
    "ollama.generate": (_OLLAMA,),
}


def normalised(dialect: str | None, usage: Mapping[str, Any] | None) -> dict[str, int]:
    """The tokens that a call cost: `input_tokens`, `output_tokens`, `cached_tokens`, `reasoning_tokens`, as far as `usage` tells.

    Input is all that the model was given, what came from a cache (`cached_tokens` of it) or went into one among it; output is all that
    it generated, thoughts (`reasoning_tokens` of it) among it. What the provider does not say is absent, not zero. The counts are of
    the whole call, whose choices share one usage; `engine.generate` counts each output by itself where the engine does.

    `dialect` is a step's. A step that was submitted has none: its usage is read in OpenAI's words. Never fails: what is no count says
    nothing.
    """
    for words in _BY_DIALECT.get(dialect, ()):
        counts = dict(_counts(words, usage or {}))
        if counts.keys() & {"input_tokens", "output_tokens"}:
            return counts
    return {}


def _counts(words: _Words, usage: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    given, made = _first(usage, words.input), _first(usage, words.output)
    cached, thought = _first(usage, words.cached), _first(usage, words.reasoning)
    more = [count for names in words.beside_input if (count := _first(usage, names)) is not None]
    also = [count for names in words.beside_output if (count := _first(usage, names)) is not None]
    if words is _OPENAI:
        more += [cached] if cached and given is not None and cached > given else []
        also += [thought] if thought and made is not None and _is_beside(thought, given or 0, made, usage) else []
    if given is not None:
        yield "input_tokens", given + sum(more)
    if made is not None or also:  # Gemini leaves out what is zero
        yield "output_tokens", (made or 0) + sum(also)
    if cached is not None:
        yield "cached_tokens", cached
    if thought is not None:
        yield "reasoning_tokens", thought


def _is_beside(thought: int, given: int, made: int, usage: Mapping[str, Any]) -> bool:
    """Whether a server counts thoughts beside its output, not in it: they are more than that, or the total is the sum of all three."""
    return thought > made or _first(usage, ("total_tokens",)) == given + made + thought


def _first(usage: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    """The first count that is there under one of the names."""
    for name in names:
        value: Any = usage
        for key in name.split("."):
            value = value.get(key) if isinstance(value, Mapping) else None
        if type(value) is int and value >= 0:
            return value
    return None
