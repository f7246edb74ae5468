"""Prompts and answers in buffers: what is given is what was put in, now and later, and most of it lies there once."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stepwell.warehouse._parse.joined import Joined

SOME = st.lists(st.integers(0, 2), max_size=6)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 4), st.integers(0, 2), SOME, SOME, st.booleans()),
        max_size=14,
    ),
    st.sampled_from([60, 1 << 20]),
)
def test_as_if_each_were_made_alone(
    turns: list[tuple[str | None, int, int, list[int], list[int], bool]], room: int
) -> None:
    joined = Joined(room)
    before: list[list[int]] = [[]]
    kept: list[tuple[NDArray[np.int32], list[int]]] = []
    for whose, back, cut, new, said, wide in turns:
        start = before[-1 - back] if back < len(before) else []
        prompt = [*start[: len(start) - cut], *new]
        kind = np.int64 if wide else np.int32
        kept.append((joined.join(whose, np.array(prompt, kind), np.array(said, kind)), [*prompt, *said]))
        before.append(kept[-1][1])
        for ids, expected in kept:  # of those before, too: they are not written over
            assert ids.dtype == np.int32
            assert ids.tolist() == expected


def test_a_conversation_lies_there_once() -> None:
    joined, prompt, made = Joined(), np.arange(100, dtype=np.int32), list[NDArray[np.int32]]()
    for turn in range(30):
        made.append(joined.join("t", prompt, np.full(20, turn, np.int32)))
        prompt = np.concatenate([made[-1], np.arange(5, dtype=np.int32)])
        joined.join("t", np.full(8, turn, np.int32), np.full(3, turn, np.int32))  # a sub-agent
    buffers = {id(ids if ids.base is None else ids.base) for ids in made}
    assert len(buffers) < 8
    assert np.shares_memory(made[-1], made[-2])


def test_the_least_recently_used_is_forgotten() -> None:
    joined, some = Joined(10_000), np.arange(100, dtype=np.int32)
    for number in range(100):
        joined.join(str(number), some, some)
    assert 0 < len(joined) <= 12
