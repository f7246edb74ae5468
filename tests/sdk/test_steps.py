from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from stepwell.errors import InvalidRecord
from stepwell.sdk._steps import step_item
from stepwell.sdk.records import Step, checked, encoded

TOKENS: dict[str, Any] = {"prompt_ids": [1, 2], "response_ids": [3, 4], "logprobs": [-0.5, -1.0]}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"reward": 1, "metadata": {"a": None}, "policy_version": 7, "split": "eval", "trainable": False},
        {"messages": [{"role": "user", "content": "hi"}], "response": "ho", "usage": {}, "finish_reason": "stop"},
        {"logprobs": None},
    ],
)
def test_the_short_way_says_the_same_as_the_long_one(more: dict[str, Any]) -> None:
    fields = {**TOKENS, "step_id": "s", "trajectory_id": "t", **more}
    item = step_item(fields)
    assert item.parts and item.id == "s"
    assert json.loads(item.whole()) == json.loads(encoded(checked(Step, fields)))


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({**TOKENS, "logprobs": [-0.5]}, "logprobs"),
        ({**TOKENS, "logprobs": np.array([-0.5, np.nan])}, "logprobs[1]"),
        ({**TOKENS, "prompt_ids": np.array([1, -1])}, "prompt_ids[1]"),
        ({**TOKENS, "prompt_ids": [1, True]}, "prompt_ids[1]"),
        ({**TOKENS, "prompt_ids": []}, "prompt_ids"),
        ({"prompt_ids": [1]}, "response_ids"),
        ({**TOKENS, "split": "test"}, "split"),
        ({**TOKENS, "reward": float("nan")}, "reward"),
        ({**TOKENS, "policy_version": 2**63}, "policy_version"),
        ({**TOKENS, "metadata": {"a": {1, 2}}}, "metadata"),
        ({**TOKENS, "nonsense": 1}, "nonsense"),
    ],
)
def test_what_is_wrong_is_named_on_both_ways(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        step_item(fields)
    assert caught.value.field == field


def test_an_item_is_a_snapshot() -> None:
    prompt, logprobs = np.array([1, 2]), [-0.5, -1.0]
    item = step_item({**TOKENS, "prompt_ids": prompt, "logprobs": logprobs})
    prompt[0], logprobs[0] = 9, -9.0
    assert json.loads(item.whole())["prompt_ids"] == [1, 2] and json.loads(item.whole())["logprobs"] == [-0.5, -1.0]


def test_an_array_per_token_is_what_it_weighs() -> None:
    item = step_item({"prompt_ids": np.arange(1, 8001), "response_ids": np.arange(100)})
    assert 4 * 8100 <= item.size < 4 * 8100 + 200
