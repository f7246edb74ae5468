"""What lineage says that steps share, against what their tokens do."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reader.stories import Story, stories

from stepwell.reader import Sequences, merge
from stepwell.reader._modes import Merge, arranged
from stepwell.reader._plan.estimate import Forest, forest_of, nearest
from stepwell.reader._select.drift import shared_with_parent


def estimated(story: Story, rows: list[int], mode: Merge) -> Forest:
    steps = story.steps
    return forest_of(steps, shared_with_parent(steps), np.array(rows, np.int64), steps.response_length, mode)


def merged(story: Story, rows: list[int], mode: Merge) -> int:
    """Tokens that are really computed."""
    sequences = Sequences.from_lists([story.prompts[row] for row in rows], [story.responses[row] for row in rows])
    whose = np.array([story.trajectory[row] for row in rows], np.int64)
    return merge(sequences, prefixes=arranged(sequences, mode, whose)).tokens_merged


def total(forest: Forest) -> int:
    assert (forest.shared >= 0).all()
    assert (forest.shared <= np.append(0, forest.lengths[:-1])).all()
    assert (forest.shared <= forest.lengths).all()
    return int((forest.lengths - forest.shared).sum())


@settings(deadline=None)
@given(stories())
def test_of_all_steps_lineage_knows_all_that_they_share_but_for_beginnings_of_tasks(story: Story) -> None:
    """The two tasks begin with the same two tokens, which no column tells."""
    rows = list(range(len(story.parent)))
    roots = {tuple(story.prompts[row]) for row in rows if story.parent[row] < 0}
    assert total(estimated(story, rows, "tree")) == merged(story, rows, "tree") + (2 if len(roots) == 2 else 0)


@settings(deadline=None)
@given(stories(), st.data())
def test_of_some_steps_it_never_promises_too_much(story: Story, data: st.DataObject) -> None:
    rows = sorted(data.draw(st.sets(st.sampled_from(range(len(story.parent))), min_size=1)))
    naive = sum(len(story.tokens(row)) for row in rows)
    for mode in ("tree", "trajectory"):
        assert merged(story, rows, mode) <= total(estimated(story, rows, mode)) <= naive
    assert total(estimated(story, rows, "none")) == naive
    assert sorted(estimated(story, rows, "tree").lengths) == sorted(len(story.tokens(row)) for row in rows)


def test_lines_go_on_until_something_drifts() -> None:
    story = Story()
    root = story.add(0, -1, [1, 2], 0, 2)
    second = story.add(0, root, story.tokens(root), 1, 2)
    story.add(0, second, story.tokens(second)[:5], 1, 2, 5)
    forest = estimated(story, [0, 1, 2], "trajectory")
    assert forest.lengths.tolist() == [4, 7, 8]
    assert forest.shared.tolist() == [0, 4, 0]


def test_an_ancestor_that_is_left_out_still_tells_what_is_shared() -> None:
    """Of a root, its child and two grandchildren the child is missing. It has 3 tokens of the root: they have no more than that."""
    parents, shared = np.array([-1, 0, 1, 1], np.int32), np.array([-1, 3, 9, 2])
    place, common = nearest(parents, shared, np.array([0, 2, 3]))
    assert place.tolist() == [-1, 0, 0]
    assert common.tolist() == [0, 3, 2]


def test_steps_whose_links_go_round_are_kept_and_share_nothing() -> None:
    story = Story()
    story.add(0, 1, [1, 2], 0, 2)
    story.add(0, 0, [1, 2, 3], 0, 2)
    forest = estimated(story, [0, 1], "tree")
    assert sorted(forest.lengths) == [4, 5]
    assert total(forest) == 9
