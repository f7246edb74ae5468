from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import PrefixOrder, Sequences, _tree, prefix_order


def expand(start: Any, length: Any) -> list[int]:
    return [i for s, n in zip(start.tolist(), length.tolist(), strict=True) for i in range(s, s + n)]


@settings(deadline=None)
@given(data=st.data())
def test_packed_positions_are_the_nodes_of_a_trie(
    branching_steps: Any, to_sequences: Callable[..., Sequences], new_trie: Any, data: st.DataObject
) -> None:
    steps = data.draw(branching_steps)
    tree = _tree.build_tree(to_sequences(steps), prefix_order(to_sequences(steps)))
    trie = new_trie()
    node_at: dict[int, int] = {}
    for place, row in enumerate(tree.rows.tolist()):
        nodes = trie.insert(steps[row].tokens)
        path = [i for a, b in tree.path(int(tree.last[place])) for i in range(a, b)]
        assert len(path) == len(nodes)
        for position, node in zip(path, nodes, strict=True):
            assert node_at.setdefault(position, node) == node
        spans = slice(*tree.span_offsets[place : place + 2])
        assert expand(tree.span_start[spans], tree.span_length[spans]) == path[len(steps[row].prompt) :]
        assert tree.own_start[place] + tree.lengths[place] - tree.shared[place] <= tree.total
    assert sorted(node_at) == list(range(tree.total))
    assert len(set(node_at.values())) == tree.total == len(trie.parents)


@settings(deadline=None)
@given(data=st.data())
def test_chains_are_longest_runs_and_segments_cover_the_batch(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    sequences = to_sequences(data.draw(branching_steps))
    tree = _tree.build_tree(sequences, prefix_order(sequences))
    assert expand(tree.chain_start, tree.chain_lengths) == list(range(tree.total))
    # a chain that hung from the token just before it would be the same chain going on
    assert (tree.chain_parent < np.maximum(tree.chain_start - 1, 0)).all()
    assert ((tree.chain_parent == -1) == (tree.chain_depth == 0)).all()
    assert expand(tree.segment_start, np.diff(tree.segment_start, append=tree.total)) == list(range(tree.total))
    for start, depth, parent in zip(tree.chain_start, tree.chain_depth, tree.chain_parent, strict=True):
        assert depth == sum(b - a for a, b in tree.path(int(parent)))
        assert tree.path(int(start))[:-1] == tree.path(int(parent))


def test_lowering_a_shared_length_cuts_the_tree(branched: Sequences) -> None:
    found = prefix_order(branched)
    cut = PrefixOrder(found.order, np.where(np.arange(4) == 2, 0, found.shared))
    whole, parts = _tree.build_tree(branched, found), _tree.build_tree(branched, cut)
    assert parts.total == whole.total + found.shared[2]
    assert (parts.chain_depth == 0).sum() == 2


@pytest.mark.parametrize(
    ("order", "shared", "field"),
    [
        ([0, 0], [0, 0], "order"),
        ([0, 4], [0, 0], "order"),
        ([-1], [0], "order"),
        ([0, 1], [0, 5], "shared"),
        ([2, 0], [0, 4], "shared"),
        ([0, 1], [0, -1], "shared"),
    ],
)
def test_an_order_that_is_not_one_is_refused(
    branched: Sequences, order: list[int], shared: list[int], field: str
) -> None:
    with pytest.raises(InvalidRecord) as caught:
        _tree.build_tree(branched, PrefixOrder(np.array(order), np.array(shared)))
    assert caught.value.field == field


def test_a_batch_beyond_int32_is_refused(branched: Sequences, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tree, "INT32_MAX", 5)
    with pytest.raises(InvalidRecord, match="7 merged tokens do not fit"):
        _tree.build_tree(branched, prefix_order(branched))
    many = Sequences.from_lists([[1]] * 3, [[2, 3]] * 3)
    with pytest.raises(InvalidRecord, match="6 loss terms do not fit"):
        _tree.build_tree(many, prefix_order(many))
