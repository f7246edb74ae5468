from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from stepwell.reader.adapters import rows_of, to_skyrl

Make = Callable[..., Any]


def test_lists_of_rows(made: Make) -> None:
    output = to_skyrl(made())
    assert output["prompt_token_ids"] == [[1, 2], [1, 2], [6]]
    assert output["response_ids"] == [[11, 12, 3, 13, 4, 5, 14, 15, 16], [21], [31, 32, 33, 34]]
    assert output["loss_masks"] == [[1, 1, 0, 1, 0, 0, 1, 1, 1], [1], [1, 1, 1, 1]]
    assert output["rewards"][0] == pytest.approx([0.5, 0.5, 0, 0.5, 0, 0, 0.5, 0.5, 0.5])
    assert output["rollout_logprobs"][1] == pytest.approx([-0.1])
    assert output["stop_reasons"] is None and output["is_last_step"] == [True] * 3
    assert {len(value) for value in output.values() if value is not None} == {3}


def test_steps_of_a_trajectory_follow_each_other(made: Make) -> None:
    output = to_skyrl(made(merge_by="none", packs=2))
    names = [one.to_string() for one in output["trajectory_ids"]]
    assert names == ["g_0", "g_0", "g_0", "g_1", "h_0"]
    assert output["is_last_step"] == [False, False, True, True, True]


def test_reasons_come_from_the_details(made: Make) -> None:
    names = [f"s{row}" for row in range(5)]
    details = pa.table({"step_id": names, "finish_reason": ["stop", "stop", "length", None, "stop"]})
    assert to_skyrl(rows_of(made(), details))["stop_reasons"] == ["length", "stop", "stop"]
