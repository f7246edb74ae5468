from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import Sequences


@given(data=st.data())
def test_arrow_and_lists_give_the_rows_back(branching_steps: Any, data: st.DataObject) -> None:
    steps = data.draw(branching_steps)
    columns = [[getattr(s, f) for s in steps] for f in ("prompt", "response", "logprobs", "trained")]
    kinds = [pa.list_(pa.int32()), pa.list_(pa.int64()), pa.list_(pa.float64()), pa.list_(pa.bool_())]
    arrow = [pa.array(rows, kind) for rows, kind in zip(columns, kinds, strict=True)]
    for sequences in (
        Sequences.from_arrow(*arrow[:3], loss_mask=arrow[3]),
        Sequences.from_lists(*columns[:3], loss_mask=columns[3]),
    ):
        assert len(sequences) == len(steps)
        assert [sequences.tokens.dtype.name, sequences.offsets.dtype.name] == ["int32", "int64"]
        for row, step in enumerate(steps):
            start, end = sequences.offsets[row : row + 2]
            assert sequences.tokens[start:end].tolist() == step.tokens
            assert sequences.prompt_lengths[row] == len(step.prompt)
            inside = slice(*sequences.response_offsets[row : row + 2])
            assert sequences.old_logprob is not None
            assert sequences.old_logprob[inside].tolist() == step.logprobs
            assert sequences.loss_mask is not None
            assert sequences.loss_mask[inside].tolist() == step.trained
            assert sequences.trained_lengths[row] == sum(step.trained)


def test_columns_keep_absence() -> None:
    sequences = Sequences.from_lists([[1], [2]], [[3], [4, 5]])
    assert sequences.old_logprob is None
    assert sequences.loss_mask is None
    assert sequences.trained_total == 3
    assert Sequences.from_lists([[1], [2]], [[3], [4, 5]], [None, None]).old_logprob is None


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_logprob_that_is_not_finite_is_refused_by_step(bad: float) -> None:
    with pytest.raises(InvalidRecord, match=r"logprobs: step 41 \(row 1\), response token 1 is"):
        Sequences.from_lists([[1], [2]], [[3], [4, 5]], [[-1.0], [-1.0, bad]], step_index=[40, 41])


@pytest.mark.parametrize(
    ("arguments", "field", "message"),
    [
        (([[1], [2]], [[3], [4]], [[-1.0], None]), "logprobs", r"step 8 \(row 1\) has 0 values for 1"),
        (([[1], [2]], [[3], [4]], [[-1.0], [-1.0, -2.0]]), "logprobs", r"step 8 \(row 1\) has 2 values for 1"),
        (([[1], []], [[3], [4]]), "prompt_ids", r"step 8 \(row 1\) is trained but has an empty prompt"),
        (([[1], [-2]], [[3], [4]]), "tokens", r"step 8 \(row 1\) holds the negative id -2"),
        (([[1], [2]], [[3], [2**31]]), "response_ids", r"step 8 \(row 1\) is not a list of int32"),
        (([[1], [2]], [[3], None]), "response_ids", r"step 8 \(row 1\) has none"),
        (([[1], [2]], [[3]]), "response_ids", "columns of unequal length: 2 prompts, 1 responses"),
    ],
)
def test_refusals_name_the_field_and_the_step(arguments: tuple[Any, ...], field: str, message: str) -> None:
    with pytest.raises(InvalidRecord, match=message) as caught:
        Sequences.from_lists(*arguments, step_index=[7, 8])
    assert caught.value.field == field


def test_empty_prompts_and_responses_are_context() -> None:
    sequences = Sequences.from_lists([[], [1], []], [[2, 3], [], []], loss_mask=[[False, False], [], []])
    assert sequences.trained_lengths.tolist() == [0, 0, 0]
    assert sequences.lengths.tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"offsets": [0, 2, 5]}, "offsets"),
        ({"offsets": [0, 4]}, "offsets"),
        ({"prompt_lengths": [3, 1]}, "prompt_lengths"),
        ({"prompt_lengths": [-1, 1]}, "prompt_lengths"),
        ({"step_index": [1]}, "step_index"),
        ({"old_logprob": [-1.0]}, "old_logprob"),
        ({"loss_mask": [True, True, True]}, "loss_mask"),
        ({"tokens": [1.0, 2.0, 3.0, 4.0]}, "tokens"),
    ],
)
def test_the_constructor_checks_flat_columns_too(changed: dict[str, Any], field: str) -> None:
    flat: dict[str, Any] = {
        "tokens": [1, 2, 3, 4],
        "offsets": [0, 2, 4],
        "prompt_lengths": [1, 1],
        "step_index": [0, 1],
    }
    assert len(Sequences(**flat)) == 2
    with pytest.raises(InvalidRecord) as caught:
        Sequences(**(flat | changed))
    assert caught.value.field == field


@given(data=st.data())
def test_selected_rows_are_as_if_given_alone(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    steps = data.draw(branching_steps)
    rows = data.draw(st.lists(st.integers(0, len(steps) - 1), unique=True)) if steps else []
    whole = to_sequences(steps, masked=True)
    part = whole.select(rows)
    alone = to_sequences([steps[row] for row in rows], masked=True)
    assert part.step_index.tolist() == whole.step_index[rows].tolist()
    for name in ("tokens", "offsets", "prompt_lengths", "loss_mask"):
        assert getattr(part, name).tolist() == getattr(alone, name).tolist()
    if alone.old_logprob is not None:
        assert part.old_logprob is not None
        assert part.old_logprob.tolist() == alone.old_logprob.tolist()


def test_select_refuses_rows_that_are_not_there(branched: Sequences) -> None:
    for rows in ([4], [-1]):
        with pytest.raises(InvalidRecord, match=r"rows: must lie in \[0, 4\)"):
            branched.select(rows)


def test_per_response_token_checks_alignment(branched: Sequences) -> None:
    assert branched.per_response_token("x", [1, 2, 3, 4, 5, 6]).tolist() == [1, 2, 3, 4, 5, 6]
    assert branched.per_response_token("x", pa.array([[1, 2], [3, 4], [5], [6]])).tolist() == [1, 2, 3, 4, 5, 6]
    with pytest.raises(InvalidRecord, match=r"x: step 100 \(row 0\) has 1 values for 2"):
        branched.per_response_token("x", pa.array([[1], [2, 3, 4], [5], [6]]))
    with pytest.raises(InvalidRecord, match="null in every row"):
        branched.per_response_token("x", pa.array([None] * 4, pa.list_(pa.float32())))
