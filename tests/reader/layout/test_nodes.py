"""Nodes of a prefix tree against a trie that is made token by token."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import PrefixNodes, Sequences

Row = tuple[list[int], list[int]]
ROWS = st.lists(
    st.tuples(st.lists(st.integers(0, 1), min_size=1, max_size=6), st.lists(st.integers(0, 1), max_size=4)),
    min_size=1,
    max_size=12,
)


def nodes_of(rows: list[Row], kinds: list[int] | None = None) -> PrefixNodes:
    sequences = Sequences.from_lists([prompt for prompt, _ in rows], [response for _, response in rows])
    return PrefixNodes.of(sequences, None if kinds is None else np.array(kinds))


def expected(rows: list[Row], kinds: list[int]) -> dict[tuple[int, ...], dict[str, int]]:
    """By the prefix that a node's tokens end: how long it is, who shares it, who ends there, what was sampled."""
    through: dict[tuple[int, ...], list[int]] = defaultdict(list)
    ending: dict[tuple[int, ...], int] = defaultdict(int)
    sampled: set[tuple[int, ...]] = set()
    for row, (prompt, response) in enumerate(rows):
        whole = (-1 - kinds[row], *prompt, *response)  # a first token that tells kinds apart, and is not counted
        ending[whole] += 1
        for size in range(2, len(whole) + 1):
            through[whole[:size]].append(row)
            if size - 1 > len(prompt):
                sampled.add(whole[:size])
    found: dict[tuple[int, ...], dict[str, int]] = {}
    run = new = 0
    for prefix in sorted(through):
        above = prefix[:-1]
        goes_on = len(above) > 1 and through[above] == through[prefix] and not ending[above]
        run, new = (run + 1, new + (prefix in sampled)) if goes_on else (1, int(prefix in sampled))
        found.pop(above, None) if goes_on else None
        found[prefix] = {
            "tokens": run,
            "steps": len(through[prefix]),
            "ended": ending[prefix],
            "sampled": new,
            "position": len(prefix) - 1 - run,
        }
    return found


@settings(max_examples=150, deadline=None)
@given(ROWS, st.data())
def test_as_a_trie_has_them(rows: list[Row], data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows)))
    nodes = nodes_of(rows, kinds)
    wanted = expected(rows, kinds)
    columns = ("tokens", "steps", "ended", "sampled", "position")
    found = sorted(
        zip(*(getattr(nodes, name).tolist() for name in columns), strict=True),
    )
    assert found == sorted(tuple(one[name] for name in columns) for one in wanted.values())
    assert nodes.naive == sum(len(prompt) + len(response) for prompt, response in rows)
    assert nodes.merged == len({(kind, *(p + r)[:size]) for (p, r), kind in zip(rows, kinds, strict=True)
                                for size in range(1, len(p + r) + 1)})  # fmt: skip
    assert nodes.saved_before[-1] == nodes.naive - nodes.merged


@settings(max_examples=100, deadline=None)
@given(ROWS)
def test_the_links_are_those_of_a_tree(rows: list[Row]) -> None:
    nodes = nodes_of(rows)
    for node in range(len(nodes)):
        parent, path = int(nodes.parent[node]), nodes.path(node)
        assert len(path) == nodes.level[node] and (path[-1] if path else -1) == parent
        if parent >= 0:
            assert parent < node < nodes.end[parent] and nodes.steps[node] <= nodes.steps[parent]
            assert nodes.position[node] == nodes.position[parent] + nodes.tokens[parent]
        below = [child for child in range(len(nodes)) if nodes.parent[child] == node]
        assert nodes.steps[node] == nodes.ended[node] + sum(int(nodes.steps[child]) for child in below)
        assert nodes.stop[node] - nodes.start[node] == nodes.tokens[node] + sum(
            int(nodes.stop[child] - nodes.start[child]) for child in below
        )
        prompt, response = rows[int(nodes.row[node])]
        assert len(prompt) + len(response) >= nodes.position[node] + nodes.tokens[node]
        some = nodes.rows[nodes.before[node] : nodes.before[node] + nodes.steps[node]]
        at = int(nodes.position[node] + nodes.tokens[node])
        assert len({tuple((rows[row][0] + rows[row][1])[:at]) for row in some.tolist()}) == 1


def test_two_turns_and_another_answer() -> None:
    nodes = nodes_of([([1, 2], [3]), ([1, 2, 3, 4], [5, 6]), ([1, 2], [7])])
    assert nodes.tokens.tolist() == [2, 1, 3, 1] and nodes.steps.tolist() == [3, 2, 1, 1]
    assert nodes.parent.tolist() == [-1, 0, 1, 0] and nodes.level.tolist() == [0, 1, 2, 1]
    assert nodes.sampled.tolist() == [0, 1, 2, 1] and nodes.ended.tolist() == [0, 1, 1, 1]
    assert (nodes.naive, nodes.merged) == (12, 7) and nodes.rows.tolist() == [0, 1, 2]


def test_nothing_at_all() -> None:
    nodes = PrefixNodes.of(Sequences.from_lists([], []))
    assert len(nodes) == nodes.naive == nodes.merged == 0


def test_a_row_without_tokens_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="step 1"):
        nodes_of([([1], [2]), ([], [])])
