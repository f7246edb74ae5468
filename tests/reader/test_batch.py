from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader import Sequences, TreeBatch, merge


@pytest.fixture
def batch(branched: Sequences) -> TreeBatch:
    return merge(branched, advantage=[1, -1, 0.5, 2])


def test_sizes(batch: TreeBatch) -> None:
    assert (batch.tokens_unmerged, batch.tokens_merged, batch.occurrences) == (17, 7, 6)
    assert batch.merge_ratio == pytest.approx(17 / 7)


def test_sequence_rebuilds_rows_and_refuses_others(batch: TreeBatch) -> None:
    rows = [batch.sequence(row).tolist() for row in range(4)]
    assert rows == [[1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4, 9, 6], [1, 2, 3, 5]]
    assert batch.sequence(0).dtype == np.int32
    for row in (-1, 4):
        with pytest.raises(InvalidRecord, match="not a row of this batch of 4 steps"):
            batch.sequence(row)


def test_an_empty_row_is_an_empty_sequence() -> None:
    assert merge(Sequences.from_lists([[], [1]], [[], [2]])).sequence(0).tolist() == []


def test_arrays_are_the_documented_ones(batch: TreeBatch) -> None:
    found = {name: (array.dtype.name, len(array)) for name, array in batch.arrays().items()}
    assert found == {
        **dict.fromkeys(("input_ids", "position_ids", "subtree_end", "parent"), ("int32", 7)),
        "tree_cu_seqlens": ("int32", 2),
        **dict.fromkeys(("target_source", "target_id", "target_position"), ("int32", 4)),
        **dict.fromkeys(("occurrence_target", "occurrence_step"), ("int32", 6)),
        "occurrence_offsets": ("int32", 5),
        **dict.fromkeys(("weight", "old_logprob", "advantage"), ("float32", 6)),
        "step_index": ("int64", 4),
    }
    assert all(array.flags.c_contiguous and array.flags.writeable for array in batch.arrays().values())


def test_a_batch_is_checked_whenever_it_is_built(batch: TreeBatch) -> None:
    with pytest.raises(InvalidRecord, match="weight"):
        replace(batch, weight=batch.weight[:-1])


def test_a_batch_can_be_sent_to_another_process(batch: TreeBatch, branched: Sequences) -> None:
    again = pickle.loads(pickle.dumps(batch))
    again.check(branched)
    assert again.sequence(2).tolist() == batch.sequence(2).tolist()
