"""Choices of the completions API."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange import Unparseable
from stepwell.exchange._chat.reply import Reply
from stepwell.exchange._completions.reply import choice_of
from stepwell.exchange._generation import Choice


def read(choice: dict[str, Any], prompt: list[int] | None = None, *, echoed: str = "", **root: Any) -> Choice:
    made = {"index": 0, "message": {}, "finish_reason": "stop", **choice}
    return choice_of(Reply(root=root, choices={0: made}), 0, prompt, echoed, counted=True)


def said(choice: Choice) -> list[tuple[str, str]]:
    return [(part["type"], part["text"]) for part in choice.message["content"]]


def test_a_text_a_thought_or_a_message() -> None:
    assert said(read({"text": "a"})) == [("text", "a")]
    assert said(read({"text": "a", "reasoning": "r"})) == [("reasoning", "r"), ("text", "a")]
    assert said(read({"text": "", "message": {"content": "m"}})) == [("text", "m")]
    assert said(read({"text": "a", "message": {"content": "a", "reasoning": "r"}})) == [
        ("reasoning", "r"),
        ("text", "a"),
    ]
    assert said(read({"text": None})) == []
    for wrong in ({"text": 5}, {"message": {"content": 5}}):
        with pytest.raises(Unparseable):
            read(wrong)


def test_an_echo_is_told_from_what_was_generated() -> None:
    parts = read({"text": "hi ho"}, echoed="hi ").message["content"]
    assert parts == [{"type": "text", "text": "hi ", "extra": {"echo": True}}, {"type": "text", "text": "ho"}]
    assert len(read({"text": "hi "}, echoed="hi ").message["content"]) == 1
    assert said(read({"text": "other"}, echoed="hi ")) == [("text", "other")]


def old(*values: float | None, tokens: list[str] | None = None) -> dict[str, Any]:
    return {"logprobs": {"tokens": tokens or ["t"] * len(values), "token_logprobs": list(values), "text_offset": []}}


def test_logprobs_in_their_old_form_belong_to_the_ids() -> None:
    assert read({"token_ids": [5, 6], **old(-1.0, -2.0)}, [1]).tokens.logprobs == [-1.0, -2.0]
    assert read({"token_ids": [5, 6], **old(None, -9.0, -1.0, -2.0)}, [1, 2]).tokens.logprobs == [-1.0, -2.0]  # an echo
    short = read({"token_ids": [5, 6], **old(-1.0)}, [1]).tokens
    assert short.logprobs is None and short.problem == "1 logprobs came for 2 token ids"
    shifted = read({"token_ids": [5, 6], **old(-1.0, -2.0, tokens=["token_id:6", "token_id:5"])}, [1]).tokens
    assert shifted.problem is not None and shifted.problem.startswith("logprob 0 is of token 6")


def test_ids_that_only_the_tokens_name() -> None:
    tokens = read(old(-1.0, -2.0, tokens=["token_id:5", "token_id:6"]), [1]).tokens
    assert (tokens.prompt_ids, tokens.response_ids, tokens.logprobs, tokens.problem) == (
        [1],
        [5, 6],
        [-1.0, -2.0],
        None,
    )
    content = {"logprobs": {"content": [{"id": 5, "logprob": -1.0}]}}  # llama.cpp, in chat's form
    assert read(content, [1]).tokens.response_ids == [5]
    nothing: list[Any] = [5, {}, {"token_logprobs": 5}, {"content": [5]}]
    for logprobs in nothing:
        assert read({"logprobs": logprobs}, [1]).tokens.response_ids is None


def test_the_engines_ids_of_the_prompt_go_before_those_that_were_sent() -> None:
    assert read({"token_ids": [5], "prompt_token_ids": [2]}, [1], prompt_token_ids=[3]).tokens.prompt_ids == [2]
    assert read({"token_ids": [5]}, [1], prompt_token_ids=[3]).tokens.prompt_ids == [3]
    assert read({"token_ids": [5]}, [1]).tokens.prompt_ids == [1]


def test_usage_and_versions() -> None:
    assert read({"token_ids": [5]}, [1], usage={"completion_tokens": 2}).tokens.problem is not None
    choice = read({"token_ids": [5]}, [1], metadata={"weight_version": "3"})
    assert (choice.policy_version, choice.policy_label) == (3, "3")


@pytest.mark.parametrize(
    ("choice", "cut", "failed"),
    [
        ({"finish_reason": "length"}, True, False),
        ({"finish_reason": "abort"}, True, False),
        ({"finish_reason": "error"}, False, True),
        ({"error": {"code": 1}}, False, True),
        ({"finish_reason": ""}, False, False),
    ],
)
def test_how_a_choice_ended(choice: dict[str, Any], cut: bool, failed: bool) -> None:
    made = read({"text": "a", **choice})
    assert (made.cut, made.failed) == (cut, failed)
