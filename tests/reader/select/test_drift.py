"""What is kept of answers that the following prompt repeats differently, against their tokens."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reader.stories import Story, steps_of, stories

from stepwell.reader import Sequences
from stepwell.reader._modes import arranged
from stepwell.reader._select.drift import UNKNOWN, causes, kept_by_realigning, shared_with_parent


def common(one: list[int], other: list[int]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def kept_one_by_one(story: Story, trained: list[bool]) -> list[int]:
    """By looking at the tokens of every pair of a step and one that continues it."""
    kept = []
    for row, response in enumerate(story.responses):
        begin = len(story.prompts[row])
        following = [child for child, parent in enumerate(story.parent) if parent == row and trained[child]]
        agreed = [common(story.tokens(row), story.prompts[child]) - begin for child in following]
        some = [count for count in agreed if count > 0]
        kept.append(max(some) if some and trained[row] else len(response))
    return kept


@settings(deadline=None)
@given(stories(), st.data())
def test_of_an_answer_what_a_following_prompt_repeats_is_kept(story: Story, data: st.DataObject) -> None:
    size = len(story.parent)
    trained = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
    found = kept_by_realigning(story.steps, np.array(trained))
    assert found.tolist() == kept_one_by_one(story, trained)


@settings(deadline=None)
@given(stories())
def test_an_answer_that_was_realigned_is_a_beginning_of_what_followed(story: Story) -> None:
    """So that it is on its line: every step of which something was given up is a strict prefix of another one."""
    kept = kept_by_realigning(story.steps, np.ones(len(story.parent), np.bool_)).tolist()
    for row, count in enumerate(kept):
        if count < len(story.responses[row]):
            whole = story.prompts[row] + story.responses[row][:count]
            assert count > 0
            assert any(
                parent == row and story.prompts[child][: len(whole)] == whole
                for child, parent in enumerate(story.parent)
            )


def test_one_line_is_left_of_a_trajectory_whose_answers_were_retokenised() -> None:
    story = Story()
    row = story.add(0, -1, [1, 2, 3], 0, 4)
    for _ in range(3):
        at = len(story.prompts[row]) + 2
        row = story.add(0, row, story.tokens(row)[:at], 3, 4, at)
    kept = kept_by_realigning(story.steps, np.ones(4, np.bool_))
    assert kept.tolist() == [2, 2, 2, 4]
    sequences = Sequences.from_lists(
        story.prompts, [response[:count] for response, count in zip(story.responses, kept, strict=True)]
    )
    assert np.count_nonzero(arranged(sequences, "trajectory", np.zeros(4, np.int64)).shared == 0) == 1


def test_a_compaction_gives_nothing_up() -> None:
    """The next prompt leaves the one before inside its prompt, or right behind it: both stay whole."""
    story = Story()
    first = story.add(0, -1, [1, 2, 3], 0, 4)
    second = story.add(0, first, [1, 2], 2, 4, 2)
    story.add(0, second, story.prompts[second], 1, 4, len(story.prompts[second]))
    assert kept_by_realigning(story.steps, np.ones(3, np.bool_)).tolist() == [4, 4, 4]


def test_shared_is_what_was_recorded() -> None:
    """A root, an exact append, one that drifts at 4, one that was not compared, one without ids, and one whose parent is not there."""
    steps = steps_of(
        [0] * 6,
        parent=[-1, 0, 0, 0, 0, -2],
        prompt_length=[3, 6, 6, 6, -1, 6],
        drift_at=[-1, -1, 4, -1, -1, -1],
        drift=[None, None, "retokenised", "parent not in memory", None, None],
    )
    assert shared_with_parent(steps).tolist() == [UNKNOWN, 5, 4, -1, UNKNOWN, UNKNOWN]


def test_causes_are_counted_of_the_steps_asked_for() -> None:
    steps = steps_of([0] * 5, drift=["history", None, "template", "history", "history"])
    assert causes(steps, np.array([True, True, True, True, False])) == {"history": 2, "template": 1}
    assert causes(steps, np.zeros(5, np.bool_)) == {}
