from __future__ import annotations

import json
from typing import Any

import httpx2
import numpy as np
import pyarrow as pa
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
        ({**TOKENS, "prompt_ids": (1, -1)}, "prompt_ids[1]"),
        ({**TOKENS, "prompt_ids": [1, "3"]}, "prompt_ids[1]"),
        ({**TOKENS, "prompt_ids": [np.int64(3), 3.0]}, "prompt_ids[1]"),
        ({**TOKENS, "prompt_ids": [3, np.True_]}, "prompt_ids[1]"),
        ({**TOKENS, "prompt_ids": {1, 2}}, "prompt_ids"),
        ({**TOKENS, "logprobs": [-0.5, False]}, "logprobs[1]"),
        ({**TOKENS, "logprobs": [-0.5, np.False_]}, "logprobs[1]"),
        ({**TOKENS, "logprobs": (np.float32(-0.5), "-1")}, "logprobs[1]"),
        ({**TOKENS, "logprobs": np.array([False, False])}, "logprobs[0]"),
        ({**TOKENS, "logprobs": np.array(["-1", "-1"])}, "logprobs[0]"),
        ({**TOKENS, "logprobs": {-0.5, -1.0}}, "logprobs"),
        ({**TOKENS, "policy_version": True}, "policy_version"),
        ({"messages": [], "response": "ho"}, "messages"),
        ({"messages": (), "response": "ho"}, "messages"),
    ],
)
def test_what_is_wrong_is_named_on_both_ways(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        step_item(fields)
    assert caught.value.field == field


def test_numbers_of_numpy_are_numbers() -> None:
    fields = {
        "prompt_ids": [np.int64(3), np.uint8(4)],
        "response_ids": (np.int32(5),),
        "logprobs": [np.float32(-0.5)],
        "policy_version": np.int64(7),
        "reward": np.float32(1),
    }
    found = json.loads(step_item(fields).whole())
    assert [found[name] for name in fields] == [[3, 4], [5], [-0.5], 7, 1.0]
    assert checked(Step, {**fields, "step_id": found["step_id"]}) == checked(Step, found)


def test_an_empty_conversation_goes_with_ids_or_with_what_it_continues() -> None:
    assert b'"messages":[]' in step_item({**TOKENS, "messages": []}).whole()
    assert b'"continues"' in step_item({"messages": [], "continues": "response:r", "response": "ho"}).whole()
    assert checked(Step, {"messages": [], "response": "ho"}).messages == []  # as it may be found in a captured call


def test_a_gateway_refuses_it_too(gateway: Any, token: str) -> None:
    steps = [{"step_id": "a", "messages": [], "response": "ho"}, {"step_id": "b", "response": "ho", "messages": [{}]}]
    url, headers = f"{gateway.url}/api/v1/steps", {"authorization": f"Bearer {token}"}
    table = pa.table(
        {
            "step_id": ["c", "d"],
            "messages": ["[]", "[{}]"],
            "response": ['{"role": "assistant"}'] * 2,
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    arrow = {**headers, "content-type": "application/vnd.apache.arrow.stream"}
    for answer in (
        httpx2.post(url, json=steps, headers=headers, trust_env=False),
        httpx2.post(url, json=steps[0], headers=headers, trust_env=False),
        httpx2.post(url, content=sink.getvalue().to_pybytes(), headers=arrow, trust_env=False),
    ):
        first, *rest = answer.json()["items"]
        assert (first["status"], first["field"]) == ("refused", "messages")
        assert [item["status"] for item in rest] == ["accepted"] * len(rest)
    assert [body["step_id"] for body in gateway.bodies("step")] == ["b", "d"]


def test_an_item_is_a_snapshot() -> None:
    prompt, logprobs = np.array([1, 2]), [-0.5, -1.0]
    item = step_item({**TOKENS, "prompt_ids": prompt, "logprobs": logprobs})
    prompt[0], logprobs[0] = 9, -9.0
    assert json.loads(item.whole())["prompt_ids"] == [1, 2] and json.loads(item.whole())["logprobs"] == [-0.5, -1.0]


def test_an_array_per_token_is_what_it_weighs() -> None:
    item = step_item({"prompt_ids": np.arange(1, 8001), "response_ids": np.arange(100)})
    assert 4 * 8100 <= item.size < 4 * 8100 + 200
