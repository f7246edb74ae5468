from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stepwell.reader import Sequences, merge
from stepwell.reader._kernels.runs import ancestor_runs


@given(data=st.data())
def test_the_runs_above_a_chain_are_the_path_to_its_parent(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    tree = merge(to_sequences(data.draw(branching_steps))).tree
    runs = ancestor_runs(tree)
    assert runs.chain_stop.tolist() == [*tree.chain_start[1:].tolist(), *([tree.total] if tree.total else [])]
    for chain, parent in enumerate(tree.chain_parent.tolist()):
        own = slice(*runs.offsets[chain : chain + 2])
        assert list(zip(runs.start[own].tolist(), runs.stop[own].tolist(), strict=True)) == tree.path(parent)
        assert (runs.owner[own] == chain).all()


def test_a_staircase_of_branches_has_a_run_per_step() -> None:
    """Each answer leaves the one before it in its middle, on the side that sorts later."""
    sequences = Sequences.from_lists([[0], [0, 2], [0, 2, 2], [0, 2, 2, 2]], [[1, 1]] * 4)
    runs = ancestor_runs(merge(sequences).tree)
    assert runs.offsets.tolist() == [0, 0, 1, 3, 6]
    assert [(a, b) for a, b in zip(runs.start.tolist(), runs.stop.tolist(), strict=True)] == [
        *[(0, 1)],
        *[(0, 1), (3, 4)],
        *[(0, 1), (3, 4), (6, 7)],
    ]
