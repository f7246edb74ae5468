"""Runs of one sequence in another: right whatever the two are, and few where little differs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.warehouse._encode.align import MAX_RUNS, RUN, Ids, aligned, common_prefix, ops_of, own_of


def ids(*values: int) -> Ids:
    return np.array(values, np.int32)


def random_ids(count: int, seed: int = 0) -> Ids:
    return np.random.default_rng(seed).integers(0, 150_000, count).astype(np.int32)


def stored(sequence: Ids, base: Ids) -> tuple[list[int], int]:
    """Operations and own ids of `sequence`; that they give it back is checked here."""
    ops = ops_of(aligned(sequence, base, common_prefix(sequence, base)), len(sequence))
    own = own_of(sequence, ops)
    again, at = list[int](), 0
    for source, copied, count in zip(ops[0::3], ops[1::3], ops[2::3], strict=True):
        assert copied >= RUN or (source, copied) == (0, 0)
        assert source + copied <= len(base)
        again += [*base[source : source + copied].tolist(), *own[at : at + count].tolist()]
        at += count
    assert (again if ops else own.tolist()) == sequence.tolist()
    return list(ops), len(own)


@st.composite
def edited(draw: st.DrawFn) -> tuple[Ids, Ids]:
    """A base, and a sequence of pieces of it with others between them; of few different ids, so that pieces look alike."""
    kinds = draw(st.sampled_from([1, 2, 5000]))
    base = np.random.default_rng(draw(st.integers(0, 9))).integers(0, kinds, draw(st.integers(0, 200)))
    pieces = [np.empty(0, np.int64)]
    for _ in range(draw(st.integers(0, 6))):
        start = draw(st.integers(0, len(base)))
        pieces.append(base[start : start + draw(st.integers(0, 90))])
        pieces.append(np.array(draw(st.lists(st.integers(0, kinds), max_size=4)), np.int64))
    return np.concatenate(pieces).astype(np.int32), base.astype(np.int32)


@settings(max_examples=60, deadline=None)
@given(edited())
def test_whatever_differs_comes_back(pair: tuple[Ids, Ids]) -> None:
    stored(*pair)


@given(st.lists(st.integers(0, 1), max_size=40), st.lists(st.integers(0, 1), max_size=40), st.integers(0, 3000))
def test_common_prefix(left: list[int], right: list[int], same: int) -> None:
    """Also across the borders of the pieces it compares."""
    ours, theirs = ([7] * same + tail for tail in (left, right))
    expected = same
    while expected < min(len(ours), len(theirs)) and ours[expected] == theirs[expected]:
        expected += 1
    assert common_prefix(np.array(ours, np.int32), np.array(theirs, np.int32)) == expected


def test_pieces_of_one_buffer_are_compared_by_what_is_in_them() -> None:
    buffer = random_ids(80)
    buffer[40:60] = buffer[:20]
    for first in (0, 20, 40):
        for second in (0, 20, 40):
            for one, other in ((buffer[first:], buffer[second:]), (buffer[first:][::-1], buffer[: second + 20][::-1])):
                assert common_prefix(one, other) == common_prefix(one.copy(), other.copy())
    assert common_prefix(buffer[:70], buffer[:30]) == 30


@pytest.mark.parametrize("place", [0, 3, 500, 997])
@pytest.mark.parametrize(("gone", "come"), [(1, 1), (0, 2), (3, 0), (10, 40)])
def test_a_change_costs_itself(place: int, gone: int, come: int) -> None:
    base = random_ids(1000)
    changed = np.concatenate([base[:place], random_ids(come, 1), base[place + gone :], random_ids(100, 2)])
    _, own = stored(changed, base)
    assert own <= come + 100 + (place if place < RUN else 0) + (RUN if place > 980 else 0)


def test_every_long_run_is_found_and_none_that_is_short() -> None:
    base = random_ids(4000)
    for length, at in ((2 * RUN - 1, 5), (2 * RUN - 1, 16), (2 * RUN - 1, 1031)):
        other = np.concatenate([random_ids(50, 3), base[at : at + length], random_ids(50, 4)])
        assert stored(other, base) == ([0, 0, 50, at, length, 50], 100)
    short = np.concatenate([random_ids(50, 3), base[32 : 32 + RUN - 1], random_ids(50, 4)])
    assert stored(short, base) == ([], len(short))


def test_of_pieces_that_are_alike_the_next_one_is_taken() -> None:
    """A prompt that repeats itself goes on where it was, so that one run has the rest."""
    again = random_ids(64, 1)
    base = np.concatenate([again, random_ids(100, 2), again, random_ids(500, 3)])
    ops, _ = stored(np.concatenate([base[:164], ids(1, 2, 3), base[164:]]), base)
    assert ops == [0, 164, 3, 164, 564, 0]


def test_pieces_that_moved_are_found() -> None:
    base = random_ids(3000)
    moved = np.concatenate([base[2000:], base[:1000], base[1000:2000]])
    assert stored(moved, base)[1] == 0


def test_the_number_of_runs_is_bounded() -> None:
    base = random_ids(40 * 2 * MAX_RUNS)
    changed = base.copy()
    changed[::40] += 1
    ops, _ = stored(changed, base)
    assert len(ops) // 3 <= MAX_RUNS + 1


def test_a_long_alike_sequence() -> None:
    zeros = np.zeros(5000, np.int32)
    other = np.concatenate([zeros[:100], ids(1), zeros[:4000], ids(2), zeros])
    ops, own = stored(other, zeros)
    assert (len(ops) // 3, own) == (4, 2), "the last of it goes beyond the end of the base"


def test_ids_of_any_size() -> None:
    wide = np.arange(-50, 50, dtype=np.int32) * 40_000_000
    assert stored(np.concatenate([ids(5), wide]), wide) == ([0, 0, 1, 0, 100, 0], 1)
