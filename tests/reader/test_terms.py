from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader import Sequences
from stepwell.reader._terms import LossTerms


@pytest.fixture
def terms(branched: Sequences) -> LossTerms:
    return LossTerms.of(branched, np.array([3, 0]))


@pytest.fixture
def masked() -> LossTerms:
    sequences = Sequences.from_lists(
        [[1], [2, 2]], [[3, 4, 5], [6, 7]], loss_mask=[[False, True, True], [True, False]], step_index=[5, 6]
    )
    return LossTerms.of(sequences, np.array([1, 0]))


def test_terms_follow_the_rows_and_the_mask(terms: LossTerms, masked: LossTerms) -> None:
    assert terms.offsets.tolist() == [0, 1, 3]
    assert terms.of_responses(np.arange(6)).tolist() == [5, 0, 1]
    assert terms.depth.tolist() == [5, 2, 3]
    assert terms.sampled.tolist() == [6, 3, 4]
    assert masked.offsets.tolist() == [0, 1, 3]
    assert masked.of_responses(np.arange(5)).tolist() == [3, 1, 2]
    assert masked.depth.tolist() == [2, 2, 3]
    assert masked.sampled.tolist() == [6, 4, 5]


def test_values_per_step_and_per_response_token(terms: LossTerms, masked: LossTerms) -> None:
    assert terms.values("a", [1, 2, 3, 4]).tolist() == [4, 1, 1]
    assert terms.values("a", pa.array([[0.0, 1.0], [2.0, 3.0], [4.0], [5.0]])).tolist() == [5, 0, 1]
    assert terms.token_values("a", np.arange(6.0)).tolist() == [5, 0, 1]
    assert masked.values("a", [1, 2]).tolist() == [2, 1, 1]
    assert masked.values("a", pa.array([[0, 1, 2], [3, 4]])).tolist() == [3, 1, 2]
    assert masked.token_values("a", np.arange(5)).tolist() == [3, 1, 2]
    assert terms.values("a", [1, 2, 3, 4]).dtype == np.float32


def test_token_mean_counts_the_whole_input_not_the_pack(terms: LossTerms, masked: LossTerms) -> None:
    assert terms.weights("token-mean").tolist() == [np.float32(1 / 6)] * 3
    assert masked.weights("token-mean").tolist() == [np.float32(1 / 3)] * 3
    assert terms.weights([1, 2, 3, 4]).tolist() == [4, 1, 1]
    with pytest.raises(InvalidRecord, match="'sequence-mean' is unknown"):
        terms.weights("sequence-mean")


@pytest.mark.parametrize("values", [[1.0] * 6, [[1.0] * 4], 1.0])
def test_other_shapes_are_refused(terms: LossTerms, values: Any) -> None:
    with pytest.raises(InvalidRecord, match="give 4 values, one per step, or an Arrow list column"):
        terms.values("a", values)


def test_a_flat_array_is_per_step_even_when_there_are_as_many_response_tokens() -> None:
    terms = LossTerms.of(Sequences.from_lists([[1], [2]], [[3, 4], []]), np.array([0, 1]))
    assert terms.values("a", [1.0, 2.0]).tolist() == [1.0, 1.0]
    assert terms.values("a", pa.array([[1.0, 2.0], []])).tolist() == [1.0, 2.0]


def test_only_trained_terms_need_finite_values(masked: LossTerms) -> None:
    nan = float("nan")
    assert masked.token_values("ref", [nan, 1, 2, 3, nan]).tolist() == [3, 1, 2]
    with pytest.raises(InvalidRecord, match=r"ref: step 5 \(row 0\) has the value nan"):
        masked.token_values("ref", [0, 1, nan, 3, 0])
    with pytest.raises(InvalidRecord, match=r"adv: step 6 \(row 1\) has the value inf"):
        masked.values("adv", [0, np.inf])
