from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from stepwell.errors import InvalidRecord, MissingExtra
from stepwell.reader.adapters import to_verl

Make = Callable[..., Any]


def test_prompts_end_at_the_right_and_responses_begin_at_the_left(made: Make) -> None:
    batch = to_verl(made(), pad=0)
    found = {name: values.tolist() for name, values in batch.tensors.items()}
    assert found["prompts"] == [[1, 2], [1, 2], [0, 6]]
    assert found["responses"] == [[11, 12, 3, 13, 4, 5, 14, 15, 16], [21] + [0] * 8, [31, 32, 33, 34] + [0] * 5]
    assert found["response_mask"] == [[1, 1, 0, 1, 0, 0, 1, 1, 1], [1] + [0] * 8, [1, 1, 1, 1] + [0] * 5]
    assert found["input_ids"] == [a + b for a, b in zip(found["prompts"], found["responses"], strict=True)]
    assert found["attention_mask"] == [[1] * 11, [1] * 3 + [0] * 8, [0] + [1] * 5 + [0] * 5]
    assert found["position_ids"] == [list(range(11)), [0, 1] + [2] * 9, [0, 0, 1, 2, 3, 4] + [4] * 5]


def test_dtypes_and_names(made: Make) -> None:
    batch = to_verl(made(), pad=0)
    kinds = {name: values.dtype for name, values in batch.tensors.items()}
    whole = ("prompts", "responses", "response_mask", "input_ids", "attention_mask", "position_ids")
    numbers = ("rollout_log_probs", "old_log_probs", "advantages", "returns", "rm_scores", "token_level_scores")
    assert kinds == {**dict.fromkeys(whole, np.int64), **dict.fromkeys(numbers, np.float32)}
    assert {values.dtype for values in batch.non_tensors.values()} == {np.dtype(object)}
    assert batch.non_tensors["uid"].tolist() == ["g", "g", "h"]
    assert batch.non_tensors["__num_turns__"].tolist() == [3, 1, 1]


def test_logprobs_and_advantages_are_where_the_mask_is(made: Make) -> None:
    tensors = to_verl(made(), pad=0).tensors
    mask = tensors["response_mask"] == 1
    ids = tensors["responses"][mask]
    np.testing.assert_allclose(tensors["rollout_log_probs"][mask], -0.1 * (ids % 7 + 1), rtol=1e-6)
    np.testing.assert_allclose(tensors["advantages"][mask], [0.5] * 6 + [-0.5] + [2.0] * 4, rtol=1e-6)
    for name in ("rollout_log_probs", "advantages", "rm_scores"):
        assert not tensors[name][~mask].any()


def test_widths_are_kept_and_nothing_is_cut(made: Make) -> None:
    batch = to_verl(made(), pad=9, prompt_width=4, response_width=10)
    assert batch.tensors["prompts"].tolist()[2] == [9, 9, 9, 6]
    assert batch.tensors["input_ids"].shape == (3, 14)
    with pytest.raises(InvalidRecord, match=r"prompt_width: is 1.*nothing is cut"):
        to_verl(made(), pad=0, prompt_width=1)
    with pytest.raises(InvalidRecord, match="response_width: is 8"):
        to_verl(made(), pad=0, response_width=8)


def test_a_padding_id_that_is_a_token_does_not_train(made: Make) -> None:
    batch = to_verl(made(), pad=16)
    assert batch.tensors["response_mask"].sum() == 11


def test_what_is_missing_is_said(made: Make) -> None:
    with pytest.raises(InvalidRecord, match="padding id"):
        to_verl(made(), pad=-1)
    with pytest.raises(InvalidRecord, match="advantage"):
        to_verl(made(bare=True), pad=0)


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is installed here")
def test_a_data_proto_needs_pytorch_and_verl(made: Make) -> None:
    with pytest.raises(MissingExtra, match="'torch' is missing, and tensors"):
        to_verl(made(), pad=0).data_proto()
