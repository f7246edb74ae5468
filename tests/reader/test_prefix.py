from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, takewhile
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import PrefixOrder, Sequences, _prefix, prefix_order


def rows_of(sequences: Sequences) -> list[list[int]]:
    return [part.tolist() for part in np.split(sequences.tokens, sequences.offsets[1:-1])] if len(sequences) else []


def common(one: list[int], other: list[int]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def check_order(sequences: Sequences, some: list[int] | None = None) -> None:
    found = prefix_order(sequences) if some is None else prefix_order(sequences, np.array(some, np.int64))
    rows = rows_of(sequences)
    in_bytes = [np.array(row, np.int32).tobytes() for row in rows]
    assert found.order.tolist() == sorted(range(len(rows)) if some is None else some, key=in_bytes.__getitem__)
    placed = [rows[i] for i in found.order]
    shared = [0, *(common(a, b) for a, b in pairwise(placed))]
    assert found.shared.tolist() == shared[: len(placed)]


@settings(deadline=None)
@given(data=st.data())
def test_order_is_stable_and_shared_is_the_common_prefix(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    check_order(to_sequences(data.draw(branching_steps)))


@st.composite
def _runs(draw: st.DrawFn) -> list[list[int]]:
    """Rows as trajectories give them: each grows by a few tokens for some turns, and the next one branches off anywhere."""
    rows: list[list[int]] = []
    for _ in range(draw(st.integers(1, 5))):
        base = draw(st.sampled_from(rows)) if rows else []
        grown = base[: draw(st.integers(0, len(base)))]
        for _ in range(draw(st.integers(1, 6))):
            grown = [*grown, *draw(st.lists(st.integers(0, 2), max_size=3))]
            rows.append(grown)
    return rows


@settings(deadline=None)
@given(rows=_runs(), data=st.data())
def test_runs_of_rows_that_grow_are_placed_like_any_others(rows: list[list[int]], data: st.DataObject) -> None:
    sequences = Sequences.from_lists(rows, [[]] * len(rows))
    check_order(sequences)
    some = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True))
    check_order(sequences, some)
    check_order(sequences, sorted(some))


def test_a_run_is_compared_once_and_only_its_last_row_is_sorted(monkeypatch: pytest.MonkeyPatch) -> None:
    sorted_rows: list[int] = []
    real = _prefix._sorted

    def spy(sequences: Sequences, rows: Any) -> Any:
        sorted_rows.extend(rows.tolist())
        return real(sequences, rows)

    monkeypatch.setattr(_prefix, "_sorted", spy)
    grown = [list(range(size)) for size in range(1, 6)]
    check_order(Sequences.from_lists([*grown, [0, 9], [0, 9, 1], [0, 9, 1, 2]], [[]] * 8))
    assert sorted_rows == [4, 7]


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([0, 1, 255, 256, 65536, 2**31 - 1]), min_size=1), max_size=8))
def test_ids_of_several_bytes_never_share_part_of_a_token(rows: list[list[int]]) -> None:
    check_order(Sequences.from_lists(rows, [[]] * len(rows)))


@pytest.mark.parametrize("differs_at", [0, _prefix.CHUNK - 1, _prefix.CHUNK, _prefix.CHUNK + 1, 2 * _prefix.CHUNK])
def test_prefixes_longer_than_a_chunk(differs_at: int) -> None:
    size = 2 * _prefix.CHUNK + 3
    one = np.zeros(size, np.int32)
    other = one.copy()
    other[differs_at] = 1
    found = prefix_order(Sequences.from_lists([one, other, one, one[:-2]], [[]] * 4))
    assert found.order.tolist() == [3, 0, 2, 1]
    assert found.shared.tolist() == [0, size - 2, size, differs_at]
    grown = prefix_order(Sequences.from_lists([one[:-2], one, other, [*other, 7]], [[]] * 4))
    assert grown.order.tolist() == [0, 1, 2, 3]
    assert grown.shared.tolist() == [0, size - 2, differs_at, size]


def test_a_batch_begins_with_nothing_shared() -> None:
    with pytest.raises(InvalidRecord, match="shared"):
        PrefixOrder(np.array([0]), np.array([1]))
    with pytest.raises(InvalidRecord, match="shared"):
        PrefixOrder(np.array([0, 1]), np.array([0]))
