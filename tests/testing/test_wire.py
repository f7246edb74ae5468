"""Whole replies, read back by the official SDK and by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.testing import ByteTokenizer, ChatCall, Reply, ToolCall
from stepwell.testing._sampling import sample
from stepwell.testing._wire import answer_of

TOKENIZER = ByteTokenizer()
USER: Any = [{"role": "user", "content": "hi"}]
CALLS = [ToolCall("look_up", '{"key":  "Größe"}', "call_1"), ToolCall("calc", '{"x":1}', "call_2")]


def script(call: ChatCall) -> Reply:
    return Reply(content="Grüße 👋 the end", tool_calls=CALLS)


def test_vllm_fields_when_asked_for(endpoint: Callable[..., Any]) -> None:
    at = endpoint(script)
    extra = {"return_token_ids": True}
    reply = at.openai.chat.completions.create(model="m", messages=USER, logprobs=True, extra_body=extra)
    logged = at.server.calls[0]
    choice = reply.choices[0]
    assert reply.id == logged.call_id
    assert (
        reply.prompt_token_ids
        == logged.prompt_ids
        == TOKENIZER.encode("<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n")
    )
    assert choice.token_ids == logged.choices[0].response_ids
    assert TOKENIZER.decode(choice.token_ids[:-1]) == logged.choices[0].text
    assert choice.token_ids[-1] == TOKENIZER.end_of_turn
    assert [entry.logprob for entry in choice.logprobs.content] == logged.choices[0].logprobs
    assert b"".join(bytes(entry.bytes) for entry in choice.logprobs.content) == TOKENIZER.decode_bytes(choice.token_ids)
    assert [entry.token for entry in choice.logprobs.content][-1] == "<|im_end|>"
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Grüße 👋 the end"
    assert [(c.id, c.function.name, c.function.arguments) for c in choice.message.tool_calls] == [
        ("call_1", "look_up", '{"key":  "Größe"}'),
        ("call_2", "calc", '{"x":1}'),
    ]
    assert reply.usage.prompt_tokens == len(logged.prompt_ids)
    assert reply.usage.completion_tokens == len(choice.token_ids)
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens


def test_plain_openai_shape_otherwise(endpoint: Callable[..., Any]) -> None:
    at = endpoint(lambda call: Reply("hi"))
    reply = at.post(model="m").json()
    assert set(reply) == {"id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage"}
    assert reply["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "hi", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    assert reply["object"] == "chat.completion"


def test_several_choices(endpoint: Callable[..., Any]) -> None:
    at = endpoint(lambda call: Reply(f"choice {call.choice}"))
    extra = {"return_token_ids": True}
    reply = at.openai.chat.completions.create(model="m", messages=USER, n=2, logprobs=True, extra_body=extra)
    assert [choice.message.content for choice in reply.choices] == ["choice 0", "choice 1"]
    assert [choice.token_ids for choice in reply.choices] == [c.response_ids for c in at.server.calls[0].choices]
    assert reply.usage.completion_tokens == sum(len(choice.token_ids) for choice in reply.choices)


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
def test_a_reply_cut_inside_a_character(endpoint: Callable[..., Any], limit: str) -> None:
    at = endpoint(lambda call: Reply("aé"))
    choice = at.post(return_token_ids=True, **{limit: 2}).json()["choices"][0]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", "a")
    assert choice["token_ids"] == [ord("a"), 0xC3]


def test_top_logprobs_are_a_distribution_with_the_sampled_token(endpoint: Callable[..., Any]) -> None:
    at = endpoint(lambda call: Reply("the end"))
    reply = at.openai.chat.completions.create(model="m", messages=USER, logprobs=True, top_logprobs=4)
    for entry in reply.choices[0].logprobs.content:
        tops = entry.top_logprobs
        assert len({top.token for top in tops}) == len(tops) == 4
        assert (entry.token, entry.logprob) in [(top.token, top.logprob) for top in tops]
        assert [top.logprob for top in tops] == sorted((top.logprob for top in tops), reverse=True)
        assert sum(2.718281828459045**top.logprob for top in tops) <= 1 + 1e-6


def test_tokens_as_ids_and_weight_versions(endpoint: Callable[..., Any]) -> None:
    at = endpoint(lambda call: Reply("hi"), weight_version="step-7")
    asked = {"logprobs": True, "return_tokens_as_token_ids": True, "return_weight_versions": True}
    choice = at.post(**asked).json()["choices"][0]
    assert [entry["token"] for entry in choice["logprobs"]["content"]] == [
        "token_id:104",
        "token_id:105",
        "token_id:258",
    ]
    assert choice["weight_versions"] == [{"version": "step-7", "start": 0, "end": 3}]
    assert "weight_versions" not in at.post().json()["choices"][0]
    at.server.app.weight_version = "step-8"
    assert at.post(**asked).json()["choices"][0]["weight_versions"][0]["version"] == "step-8"
    assert [call.weight_version for call in at.server.calls] == ["step-7", "step-7", "step-8"]


def test_reasoning_is_its_own_field(endpoint: Callable[..., Any]) -> None:
    at = endpoint(lambda call: Reply("42", reasoning="six times seven"))
    message = at.openai.chat.completions.create(model="m", messages=USER).choices[0].message
    assert (message.reasoning, message.content) == ("six times seven", "42")
    assert at.server.calls[0].choices[0].text == "<think>\nsix times seven\n</think>\n\n42"


@given(st.integers(1, 200))
def test_a_tool_call_cut_short_shows_as_text(max_tokens: int) -> None:
    sampled = sample(Reply("aé", CALLS, reasoning="hm"), [], TOKENIZER, max_tokens)
    answer = answer_of(sampled)
    if sampled.whole:
        assert (answer.content, len(answer.tool_calls)) == ("aé", 2)
    else:
        shown = sampled.text.removeprefix("<think>\nhm\n</think>\n\n") if b"</think>\n\n" in sampled.data else ""
        assert (answer.content or "") == shown.rstrip("�")
        assert answer.tool_calls == []
