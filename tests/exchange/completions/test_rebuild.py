"""Steps back to the bodies of the completions API."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange import parse
from stepwell.exchange._completions.rebuild import answer_body, request_body

from ..conftest import sse
from .test_dialect import answer, make, steps

LOGPROBS = {"tokens": ["h", "o"], "token_logprobs": [-1.0, -2.0], "text_offset": [2, 3], "top_logprobs": [{}, {}]}


@pytest.mark.parametrize("prompt", ["hi", "", [1, 2]])
def test_a_request_comes_back(prompt: Any) -> None:
    asked = {
        "model": "asked",
        "prompt": prompt,
        "suffix": "end",
        "n": 1,
        "temperature": 0,
        "stream": False,
        "user": "u",
    }
    assert request_body(steps(answer(), {**asked, "logprobs": 1}, added=("logprobs",))[0]) == asked


def test_of_several_prompts_each_step_has_its_own() -> None:
    made = steps(answer({}, {}), {"prompt": ["a", [1, 2]]})
    assert [request_body(step) for step in made] == [
        {"model": "asked", "prompt": "a"},
        {"model": "asked", "prompt": [1, 2]},
    ]


@pytest.mark.parametrize(
    "body",
    [
        answer(created=1, usage={"completion_tokens": 2}, system_fingerprint="f"),
        answer({"text": "a"}, {"text": "b", "finish_reason": "length", "stop_reason": 5}),
        answer({"prompt_token_ids": [1], "token_ids": [5, 6], "logprobs": LOGPROBS}),
        answer({"token_ids": [5], "logprobs": None}),
        answer({"text": "", "reasoning": "hm"}),
        {"id": "r", "error": {"message": "no"}},
    ],
)
def test_an_answer_comes_back(body: dict[str, Any]) -> None:
    for choice in body.get("choices", ()):
        if choice.get("logprobs", 0) is None:
            del choice["logprobs"]
    assert answer_body(steps(body)) == body


def test_ids_that_were_sent_are_not_given_back_as_the_engines() -> None:
    body = answer({"token_ids": [5]})
    assert answer_body(steps(body, {"prompt": [1, 2]})) == body


def test_an_echo_and_a_stream_come_back_as_the_plain_answer() -> None:
    body = answer({"text": "hi ho"})
    assert answer_body(steps(body, {"prompt": "hi ", "echo": True})) == body
    chunks = [{"id": "r", "model": "m", "choices": [{"index": 0, "text": text}]} for text in ("h", "o")]
    streamed = steps(sse(*chunks, {"choices": [{"index": 0, "text": "", "finish_reason": "stop"}]}))
    assert answer_body(streamed) == answer()
    assert list(parse(make(answer_body(streamed)))) == streamed
