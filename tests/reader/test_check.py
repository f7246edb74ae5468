"""Each rule of a batch is broken in turn; the check must name the array that broke it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import Sequences, TreeBatch, merge


@pytest.fixture
def batch(branched: Sequences) -> TreeBatch:
    return merge(branched, advantage=[1, -1, 0.5, 2])


def altered(batch: TreeBatch, **changes: Any) -> TreeBatch:
    """A copy with other arrays, made behind the constructor's back so that `check` alone can object."""
    copy = object.__new__(TreeBatch)
    for f in fields(batch):
        object.__setattr__(copy, f.name, changes.get(f.name, getattr(batch, f.name)))
    return copy


def put(array: Any, at: int, value: Any) -> Any:
    array = array.copy()
    array[at] = value
    return array


@pytest.mark.parametrize(
    ("name", "at", "value", "blamed"),
    [
        ("parent", 2, 2, "parent"),
        ("parent", 2, -2, "parent"),
        ("parent", 6, 1, "position_ids"),
        ("parent", 3, -1, "position_ids"),
        ("position_ids", 4, 9, "position_ids"),
        ("position_ids", 0, 1, "position_ids"),
        ("subtree_end", 5, 5, "subtree_end"),
        ("subtree_end", 6, 8, "subtree_end"),
        ("subtree_end", 3, 7, "subtree_end"),
        ("subtree_end", 2, 6, "subtree_end"),
        ("tree_cu_seqlens", 0, 1, "tree_cu_seqlens"),
        ("target_position", 3, 7, "target_position"),
        ("target_position", 1, 1, "target_position"),
        ("target_id", 1, 8, "target_id"),
        ("target_source", 3, 5, "target_source"),
        ("occurrence_target", 0, 4, "occurrence_target"),
        ("occurrence_target", 3, 0, "target_id"),
        ("occurrence_offsets", 0, 1, "occurrence_offsets"),
        ("occurrence_offsets", 4, 5, "occurrence_offsets"),
        ("occurrence_offsets", 1, 4, "occurrence_offsets"),
        ("occurrence_offsets", 1, 0, "occurrence_step"),
        ("occurrence_step", 0, 1, "occurrence_step"),
        ("weight", 0, np.nan, "weight"),
        ("advantage", 0, np.inf, "advantage"),
        ("old_logprob", 0, -np.inf, "old_logprob"),
    ],
)
def test_structure(batch: TreeBatch, name: str, at: int, value: Any, blamed: str) -> None:
    altered(batch).check()
    with pytest.raises(InvalidRecord) as caught:
        altered(batch, **{name: put(getattr(batch, name), at, value)}).check()
    assert caught.value.field == blamed


@pytest.mark.parametrize(
    "name", [f.name for f in fields(TreeBatch) if f.name not in ("tree", "ref_logprob", "input_ids", "step_index")]
)
def test_lengths_and_dtypes(batch: TreeBatch, name: str) -> None:
    array = getattr(batch, name)
    for wrong in (array[:-1], array.astype(np.int16), array[None]):
        with pytest.raises(InvalidRecord) as caught:
            altered(batch, **{name: wrong}).check()
        expected = {name} if wrong.ndim == 2 or wrong.dtype == np.int16 else set(batch.arrays())
        assert caught.value.field in expected


def test_an_altered_id_breaks_conservation_even_where_the_batch_agrees_with_itself(
    batch: TreeBatch, branched: Sequences
) -> None:
    batch.check(branched)
    forged = altered(batch, input_ids=put(batch.input_ids, 3, 8), target_id=put(batch.target_id, 1, 8))
    forged.check()
    with pytest.raises(InvalidRecord, match="target_id: entry 2 must be the id the step sampled"):
        forged.check(branched)


def test_a_lost_loss_term_breaks_conservation(batch: TreeBatch, branched: Sequences) -> None:
    first = [1, 2, 3, 4, 5]  # the shared first token keeps two of its three occurrences
    terms = ("occurrence_target", "occurrence_step", "weight", "old_logprob", "advantage")
    lost = altered(
        batch,
        occurrence_offsets=np.array([0, 0, 2, 3, 5], np.int32),
        **{name: getattr(batch, name)[first] for name in terms},
    )
    lost.check()
    with pytest.raises(InvalidRecord, match="occurrence_offsets: must give each step one loss term per trained"):
        lost.check(branched)


def test_a_term_at_the_same_id_elsewhere_breaks_conservation() -> None:
    sequences = Sequences.from_lists([[1]], [[5, 5]], [[-1, -2]])
    batch = merge(sequences)
    swapped = altered(batch, occurrence_target=batch.occurrence_target[::-1].copy())
    swapped.check()
    with pytest.raises(InvalidRecord, match="target_position"):
        swapped.check(sequences)


def test_logprobs_and_steps_are_the_recorded_ones(batch: TreeBatch, branched: Sequences) -> None:
    for changes, blamed in (
        ({"old_logprob": put(batch.old_logprob, 0, -9)}, "old_logprob"),
        ({"old_logprob": None}, "old_logprob"),
        ({"step_index": put(batch.step_index, 0, 1)}, "step_index"),
    ):
        with pytest.raises(InvalidRecord) as caught:
            altered(batch, **changes).check(branched)
        assert caught.value.field == blamed


@settings(deadline=None)
@given(data=st.data())
def test_no_other_subtree_end_passes(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    batch = merge(to_sequences(data.draw(branching_steps)))
    size = batch.tokens_merged
    assume(size)
    ends = data.draw(st.lists(st.integers(1, size), min_size=size, max_size=size))
    mixed = np.where(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)), ends, batch.subtree_end)
    assume(not np.array_equal(mixed, batch.subtree_end))
    with pytest.raises(InvalidRecord, match="subtree_end"):
        altered(batch, subtree_end=mixed.astype(np.int32)).check()


@settings(deadline=None)
@given(data=st.data())
def test_no_other_parent_passes(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    batch = merge(to_sequences(data.draw(branching_steps)))
    assume(batch.tokens_merged > 1)
    at = data.draw(st.integers(0, batch.tokens_merged - 1))
    other = data.draw(st.integers(-1, batch.tokens_merged - 1))
    assume(other != batch.parent[at])
    with pytest.raises(InvalidRecord):
        altered(batch, parent=put(batch.parent, at, other)).check()
