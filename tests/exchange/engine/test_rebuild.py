"""Steps back to the bodies of the engines' own APIs."""

from __future__ import annotations

from typing import Any

import pytest

from stepwell.exchange._engine.rebuild import answer_body, request_body

from .test_dialect import sglang, steps

TRIPLES = [[-1.0, 5, None], [-2.0, 6, None]]
LLAMA = {"content": "ho", "tokens": [5, 6], "stop": True, "stop_type": "eos", "model": "q", "tokens_predicted": 2,
         "timings": {}, "completion_probabilities": [{"id": 5, "logprob": -1.0}, {"id": 6, "logprob": -2.0}]}  # fmt: skip
CHOICE = {"index": 0, "token_ids": [5], "finish_reason": "stop", "logprobs": {"content": [{"id": 5, "logprob": -1.0}]}}


@pytest.mark.parametrize(
    "asked",
    [
        {"text": "hi", "sampling_params": {"temperature": 0}, "stream": False},
        {"input_ids": [1, 2], "return_logprob": True, "rid": "r"},
        {"prompt": [1, 2], "n_predict": 5, "temperature": 0},
        {"token_ids": [1], "sampling_params": {}, "model": "m"},
    ],
)
def test_a_request_comes_back(asked: dict[str, Any]) -> None:
    assert request_body(steps(sglang(), asked)[0]) == asked


@pytest.mark.parametrize(
    "body",
    [
        sglang(),
        sglang(output_token_logprobs=TRIPLES, input_token_logprobs=[[None, 1, None]]),
        LLAMA,
        {"request_id": "r", "choices": [CHOICE, {**CHOICE, "index": 1}], "usage": {"completion_tokens": 2}},
        {"error": {"message": "no"}},
    ],
)
@pytest.mark.parametrize("asked", [{"input_ids": [1, 2]}, {"text": "hi"}])
def test_an_answer_comes_back(body: dict[str, Any], asked: dict[str, Any]) -> None:
    assert answer_body(steps(body, asked)) == body


def test_a_batch_comes_back_as_choices_and_each_step_with_its_own_prompt() -> None:
    made = steps([sglang("a"), sglang("b")], {"text": ["x", "y"]})
    assert answer_body(made) == {"choices": [sglang("a"), sglang("b")]}
    assert [request_body(step) for step in made] == [{"text": "x"}, {"text": "y"}]
