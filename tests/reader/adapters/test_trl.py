from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader.adapters import rows_of, to_trl_async, to_trl_grpo, to_trl_rollout, to_trl_sft

Make = Callable[..., Any]


def test_inputs_of_the_loss(made: Make) -> None:
    found = to_trl_grpo(made(), pad=0)
    assert found["prompt_ids"].tolist() == [[1, 2], [1, 2], [0, 6]]
    assert found["prompt_mask"].tolist() == [[1, 1], [1, 1], [0, 1]]
    assert found["completion_mask"].sum(1).tolist() == [9, 1, 4]
    assert found["tool_mask"].tolist()[0] == [1, 1, 0, 1, 0, 0, 1, 1, 1]
    assert int(found["num_items_in_batch"]) == 11
    for name in ("old_per_token_logps", "sampling_per_token_logps", "advantages"):
        assert found[name].dtype == np.float32 and found[name].shape == found["completion_ids"].shape == (3, 9)
    assert found["advantages"][2].tolist() == pytest.approx([2, 2, 2, 2, 0, 0, 0, 0, 0])


def test_a_rollout_is_a_row_per_trajectory(made: Make) -> None:
    found = to_trl_rollout(made())
    assert found["prompt_ids"] == [[1, 2], [1, 2], [6]] and found["completion_ids"][1] == [21]
    assert found["env_mask"][0] == [1, 1, 0, 1, 0, 0, 1, 1, 1]
    assert found["logprobs"][1] == pytest.approx([-0.1]) and found["advantage"][1] == pytest.approx([-0.5])
    with pytest.raises(InvalidRecord, match="trajectory long has several rows"):
        to_trl_rollout(made(merge_by="none"))


def test_samples_of_async_grpo(made: Make) -> None:
    details = pa.table({"step_id": [f"s{row}" for row in range(5)], "policy_version": [1, 1, 2, 2, None]})
    long, short, other = to_trl_async(rows_of(made(), details))
    assert long["input_ids"].tolist() == [1, 2, 11, 12, 3, 13, 4, 5, 14, 15, 16]
    assert long["completion_mask"].tolist() == [0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1]
    assert long["old_log_probs"].shape == (11,) and long["old_log_probs"].dtype == np.float32
    assert [one["model_version"] for one in (long, short, other)] == [2, 2, 0]
    assert [one["group_id"] for one in (long, short, other)] == [0, 0, 1]
    assert [one["advantage"] for one in (long, short, other)] == pytest.approx([0.5, -0.5, 2.0])


def test_labels_for_sft_need_neither_logprobs_nor_advantages(made: Make) -> None:
    long, short, _ = to_trl_sft(made(bare=True))
    assert short == {"input_ids": [1, 2, 21], "labels": [-100, -100, 21]}
    assert long["labels"] == [-100, -100, 11, 12, -100, 13, -100, -100, 14, 15, 16]
    with pytest.raises(InvalidRecord, match="token mean"):
        to_trl_sft(made(bare=True, weight=[0.1, 0.1, 0.1, 0.2, 0.1]))
