"""Lists of a batch are looked at as a whole: what is taken is what a `Step` takes, and what is refused names the same field."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.gateway._once import random_ids
from stepwell.gateway._records import Checked
from stepwell.gateway._rows import Row, rows_of
from stepwell.sdk.records import Step, checked

GOOD: dict[str, Any] = {"step_id": "good", "prompt_ids": [1], "response_ids": [2]}


def looked_at(text: str) -> Checked:
    """The first of two records, as it comes out of a batch."""
    booleans = "true" in text or "false" in text
    first, good = rows_of([json.loads(text), GOOD], random_ids, booleans=booleans)
    assert isinstance(good, Row) and good.error is None
    return first


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('{"prompt_ids":[1,true],"response_ids":[2]}', "prompt_ids[1]"),
        ('{"prompt_ids":[1,1.0],"response_ids":[2]}', "prompt_ids[1]"),
        ('{"prompt_ids":[1,-1],"response_ids":[2]}', "prompt_ids[1]"),
        ('{"prompt_ids":[2147483648],"response_ids":[2]}', "prompt_ids[0]"),
        ('{"prompt_ids":[4294967296],"response_ids":[2]}', "prompt_ids[0]"),
        ('{"prompt_ids":[18446744073709551616],"response_ids":[2]}', "prompt_ids[0]"),
        ('{"prompt_ids":["1"],"response_ids":[2]}', "prompt_ids[0]"),
        ('{"prompt_ids":[null],"response_ids":[2]}', "prompt_ids[0]"),
        ('{"prompt_ids":[[1]],"response_ids":[2]}', "prompt_ids[0]"),
        ('{"prompt_ids":"1","response_ids":[2]}', "prompt_ids"),
        ('{"prompt_ids":{},"response_ids":[2]}', "prompt_ids"),
        ('{"prompt_ids":[],"response_ids":[2]}', "prompt_ids"),
        ('{"prompt_ids":[1]}', "response_ids"),
        ('{"response_ids":[1]}', "prompt_ids"),
        ('{"prompt_ids":[1],"response_ids":[2],"logprobs":[true]}', "logprobs[0]"),
        ('{"prompt_ids":[1],"response_ids":[2],"logprobs":[null]}', "logprobs[0]"),
        ('{"prompt_ids":[1],"response_ids":[2],"logprobs":[NaN]}', "logprobs[0]"),
        ('{"prompt_ids":[1],"response_ids":[2],"logprobs":[-Infinity]}', "logprobs[0]"),
        ('{"prompt_ids":[1],"response_ids":[2],"logprobs":[0.5]}', "logprobs[0]"),
        ('{"prompt_ids":[1],"response_ids":[2],"logprobs":[-1e39]}', "logprobs"),
        ('{"prompt_ids":[1],"response_ids":[2],"logprobs":[-1,-1]}', "logprobs"),
        ('{"prompt_ids":[1],"response_ids":[],"logprobs":[-1]}', "logprobs"),
        ('{"prompt_ids":[1],"response_ids":[2],"nonsense":1}', "nonsense"),
        ('{"prompt_ids":[1],"response_ids":[2],"status":true}', "status"),
    ],
)
def test_what_is_wrong_is_named(text: str, field: str) -> None:
    found = looked_at(text)
    assert found.error is not None and found.error.field == field


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"logprobs": [0]},
        {"logprobs": []} | {"response_ids": []},
        {"logprobs": [-0.1], "metadata": {"id": 2**64 - 1, "low": -(2**63), "yes": True}},
        {"started_at": "0001-01-01T00:00:00Z", "finished_at": "9999-12-31T23:59:59.999999Z"},  # whose clock is that?
        {"started_at": "2030-01-01T00:00:00+14:00", "finished_at": "1970-01-01T00:00:00Z"},
        {"policy_version": -(2**63)},
    ],
)
def test_what_is_unusual_is_kept(more: dict[str, Any]) -> None:
    text = json.dumps({**GOOD, "step_id": "s", **more})
    row = looked_at(text)
    assert isinstance(row, Row) and row.error is None
    whole = Step.model_validate_json(text)
    assert row.step.model_dump(exclude={"logprobs", "prompt_ids", "response_ids"}) == whole.model_dump(
        exclude={"logprobs", "prompt_ids", "response_ids"}
    )


NUMBERS = st.integers(-2, 3) | st.sampled_from([2**31 - 1, 2**31, 2**32, 2**64, True, False, 1.5, None, "1"])
IDS = st.none() | st.lists(NUMBERS, max_size=4) | st.lists(st.integers(0, 2**31 - 1), max_size=4)
REALS = st.sampled_from([0, -1, -0.25, 0.0005, 0.002, -1e30, float("nan"), float("-inf"), True, "x"])
LOGPROBS = st.none() | st.lists(REALS, max_size=4) | st.lists(st.floats(-50, 0, width=32), max_size=4)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(prompt=IDS, response=IDS, logprobs=LOGPROBS)
def test_the_quick_way_agrees_with_the_contract(prompt: Any, response: Any, logprobs: Any) -> None:
    given_ = {"step_id": "s", "prompt_ids": prompt, "response_ids": response, "logprobs": logprobs}
    values = {name: value for name, value in given_.items() if value is not None}
    found = looked_at(json.dumps(values))
    try:
        step = checked(Step, values)
    except InvalidRecord as error:
        assert found.error is not None and found.error.field == error.field
        return
    assert isinstance(found, Row) and found.error is None, found.error
    for array, said in zip(found.lists, (step.prompt_ids, step.response_ids, step.logprobs), strict=True):
        assert (array is None) == (said is None)
        assert array is None or np.array_equal(array, np.asarray(said, array.dtype))
