"""Rectangles: whatever is cut, widths, tokens and savings add up to those of the tree."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import PrefixNodes, Sequences, icicle
from stepwell.reader._layout.icicle import Cut

Row = tuple[list[int], list[int]]
ROWS = st.lists(
    st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=6), st.lists(st.integers(0, 2), max_size=4)),
    min_size=1,
    max_size=14,
)


def nodes_of(rows: list[Row]) -> PrefixNodes:
    return PrefixNodes.of(Sequences.from_lists([prompt for prompt, _ in rows], [response for _, response in rows]))


@settings(max_examples=150, deadline=None)
@given(ROWS, st.sampled_from(["tokens", "steps"]), st.integers(1, 40), st.integers(0, 12), st.data())
def test_everything_adds_up(
    rows: list[Row], by: Literal["tokens", "steps"], pixels: int, most: int, data: st.DataObject
) -> None:
    nodes = nodes_of(rows)
    node = data.draw(st.none() | st.integers(0, len(nodes) - 1))
    drawn = icicle(nodes, node, by=by, pixels=pixels, most=most)
    shown = drawn.node.tolist()
    some = range(len(nodes)) if node is None else range(node, int(nodes.end[node]))
    assert len(shown) <= most and set(shown) <= set(some)
    saved = nodes.tokens * (nodes.steps - 1)
    for what, own, cut in (
        ("tokens", nodes.tokens, Cut.TOKENS),
        ("saved", saved, Cut.SAVED),
        ("nodes", np.ones(len(nodes), np.int64), Cut.NODES),
    ):
        assert own[shown].sum() + drawn.cut[:, cut].sum() + drawn.beside[cut] == own[list(some)].sum(), what
    whole = nodes.tokens[list(some)].sum() if by == "tokens" else nodes.ended[list(some)].sum()
    assert drawn.width == whole
    roots = 0
    for place, number in enumerate(shown):
        wide = int(drawn.x1[place] - drawn.x0[place])
        parent = int(nodes.parent[number])
        children = [other for other in range(len(shown)) if nodes.parent[shown[other]] == number]
        assert wide * pixels >= drawn.width
        inside = sum(int(drawn.x1[child] - drawn.x0[child]) for child in children)
        assert wide == drawn.own[place] + inside + drawn.cut[place, Cut.WIDTH]
        at = int(drawn.x0[place] + drawn.own[place])
        for child in children:
            assert at <= drawn.x0[child]
            at = int(drawn.x1[child])
        assert at <= drawn.x1[place] <= drawn.width
        if number != node and parent >= some.start:
            assert parent in shown
        else:
            roots += wide
    assert roots + drawn.beside[Cut.WIDTH] == drawn.width


def test_the_widest_are_kept_and_a_node_can_be_looked_into() -> None:
    nodes = nodes_of([([1, 2], [3]), ([1, 2, 3, 4], [5, 6]), ([1, 2], [7]), ([8], [9])])
    drawn = icicle(nodes, pixels=1000, most=3)
    assert drawn.node.tolist() == [0, 1, 2] and drawn.width == 9
    assert drawn.x0.tolist() == [0, 2, 3] and drawn.x1.tolist() == [7, 6, 6] and drawn.own.tolist() == [2, 1, 3]
    assert drawn.cut[:, Cut.NODES].tolist() == [1, 0, 0] and drawn.beside.tolist() == [2, 1, 2, 0, 1]
    inner = icicle(nodes, 1, by="steps", pixels=1000, most=100)
    assert inner.node.tolist() == [1, 2] and (inner.width, inner.x0.tolist(), inner.x1.tolist()) == (2, [0, 1], [2, 2])


def test_a_picture_of_few_pixels_has_few_rectangles() -> None:
    nodes = nodes_of([([1], [2 + number]) for number in range(500)])
    drawn = icicle(nodes, pixels=100, most=4000)
    assert drawn.node.tolist() == [0] and drawn.cut[0].tolist() == [500, 500, 500, 0, 500]
    assert len(icicle(nodes, pixels=501, most=4000).node) == 501


def test_nothing_at_all() -> None:
    drawn = icicle(PrefixNodes.of(Sequences.from_lists([], [])), pixels=10, most=10)
    assert len(drawn.node) == drawn.width == 0


@pytest.mark.parametrize("wrong", [{"node": 4}, {"node": -1}, {"by": "height"}])
def test_what_there_is_not(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidRecord):
        icicle(nodes_of([([1], [2]), ([1], [3])]), **{"pixels": 10, "most": 10, **wrong})
