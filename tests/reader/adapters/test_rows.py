"""Optimizer steps as rows: what is in a row, in which order, and what its terms are due."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from tests.reader.stories import Story, stories

from stepwell.errors import InvalidRecord
from stepwell.reader import Sequences
from stepwell.reader.adapters import Rows, rows_of, rows_of_sequences

Make = Callable[..., Any]


def terms(rows: Rows) -> Counter[tuple[Any, ...]]:
    """Step, position in its sequence, id, and what is due."""
    at = np.flatnonzero(rows.trained)
    columns = [rows.step[at], at - rows.offsets[rows.row[at]], rows.tokens[at], rows.weight[at]]
    columns += [np.zeros(len(at)) if values is None else values[at] for values in (rows.advantage, rows.old_logprob)]
    return Counter(zip(*(column.tolist() for column in columns), strict=True))


def told(step: Any) -> Counter[tuple[Any, ...]]:
    """The same, straight from the sequences."""
    sequences, found = step.sequences, Counter[tuple[Any, ...]]()
    for row in range(len(sequences)):
        at = slice(int(sequences.response_offsets[row]), int(sequences.response_offsets[row + 1]))
        prompt = int(sequences.prompt_lengths[row])
        ids = sequences.tokens[int(sequences.offsets[row]) + prompt : int(sequences.offsets[row + 1])]
        due = (float(step.weight[row]), float(step.advantage[row]))
        for place, (token, old) in enumerate(zip(ids.tolist(), sequences.old_logprob[at].tolist(), strict=True)):
            found[(row, prompt + place, token, *due, old)] += 1
    return found


def test_a_trajectory_is_a_row_with_a_mask_over_what_was_sampled(made: Make) -> None:
    rows = rows_of(made())
    assert rows.trajectories == ["long", "short", "other"] and rows.groups == ["g", "g", "h"]
    assert [rows.tokens[rows.of(row)].tolist() for row in range(3)] == [
        [1, 2, 11, 12, 3, 13, 4, 5, 14, 15, 16],
        [1, 2, 21],
        [6, 31, 32, 33, 34],
    ]
    assert rows.trained[rows.of(0)].astype(int).tolist() == [0, 0, 1, 1, 0, 1, 0, 0, 1, 1, 1]
    assert rows.step[rows.of(0)].tolist() == [-1, -1, 0, 0, -1, 1, -1, -1, 2, 2, 2]
    assert rows.prompt_lengths.tolist() == [2, 2, 1] and rows.terms.tolist() == [6, 1, 4]
    assert rows.last_step.tolist() == [2, 3, 4] and rows.final == [True, True, True]


def test_without_merging_each_step_is_a_row(made: Make) -> None:
    rows = rows_of(made(merge_by="none"))
    assert rows.column("step_id", rows.last_step) == ["s0", "s1", "s2", "s3", "s4"]
    assert rows.final == [False, False, True, True, True]
    assert terms(rows) == terms(rows_of(made())) == told(made())


@pytest.mark.parametrize("packs", [1, 2, 3])
def test_packs_do_not_show(made: Make, packs: int) -> None:
    rows = rows_of(made(packs=packs))
    assert rows.trajectories == ["long", "short", "other"]
    assert terms(rows) == told(made())


@settings(max_examples=40, deadline=None)
@given(story=stories())
def test_every_term_is_in_one_row(made: Make, story: Story) -> None:
    steps = [
        (f"t{trajectory}", "g", prompt, response, 1.0 + row)
        for row, (trajectory, prompt, response) in enumerate(
            zip(story.trajectory, story.prompts, story.responses, strict=True)
        )
    ]
    weight = [0.5 + row for row in range(len(steps))]
    for merge_by in ("trajectory", "none"):
        step = made(steps, merge_by, weight=weight)
        rows = rows_of(step)
        assert terms(rows) == told(step)
        assert set(rows.trajectories) == {
            f"t{story.trajectory[row]}" for row in range(len(steps)) if story.responses[row]
        }


@pytest.mark.parametrize("short", [[2], [2, 3]])
def test_an_answer_that_begins_with_another_one_has_a_row_of_its_own(made: Make, short: list[int]) -> None:
    steps = [("t", "g", [1], short, 1.0), ("t", "g", [1], [2, 3, 4], -1.0), ("t", "g", [1, 2, 3, 4, 5], [6], 3.0)]
    rows = rows_of(made(steps))
    assert [rows.tokens[rows.of(row)].tolist() for row in range(len(rows))] == [[1, *short], [1, 2, 3, 4, 5, 6]]
    assert terms(rows) == told(made(steps))


def test_a_group_that_is_scattered_over_the_selection_is_put_together(made: Make) -> None:
    steps = [
        ("a", "g", [1], [2], 1.0),
        ("b", "h", [3], [4], 1.0),
        ("c", "g", [5], [6], 1.0),
        ("d", None, [7], [8], 1.0),
    ]
    rows = rows_of(made(steps, "none"))
    assert rows.trajectories == ["a", "c", "b", "d"] and rows.groups == ["g", "g", "h", "d"]


def test_branches_are_refused(made: Make) -> None:
    with pytest.raises(InvalidRecord, match="merge='trajectory'"):
        rows_of(made(merge_by="tree"))


def test_a_line_of_two_trajectories_is_refused(made: Make) -> None:
    """As a tree that happens not to branch."""
    steps = [("a", "g", [1], [2], 1.0), ("b", "g", [1, 2], [3], -1.0)]
    with pytest.raises(InvalidRecord, match="two trajectories"):
        rows_of(made(steps, "tree"))


def test_steps_without_terms_have_no_row_and_an_empty_batch_has_none(made: Make) -> None:
    rows = rows_of(made([("a", "g", [1], [], 1.0), ("b", "g", [2], [3], 1.0)], "none"))
    assert rows.trajectories == ["b"]
    empty = rows_of(made([("a", "g", [1], [], 1.0)]))
    assert len(empty) == 0 and empty.groups == [] and len(empty.prompt_lengths) == 0


def test_sequences_need_no_warehouse() -> None:
    sequences = Sequences.from_lists([[1], [2, 3]], [[4, 5], [6]], [[-1.0, -2.0], [-3.0]], step_index=[7, 3])
    rows = rows_of_sequences(sequences, advantage=np.array([1, 2], np.float32))
    assert rows.trajectories == ["3", "7"]
    assert rows.tokens.tolist() == [2, 3, 6, 1, 4, 5]
    assert rows.old_logprob is not None and rows.old_logprob.tolist() == [0, 0, -3, 0, -1, -2]


def test_details_join_by_step_and_have_to_be_complete(made: Make) -> None:
    step = made()
    details = pa.table({"step_id": [f"s{row}" for row in (4, 3, 2, 1, 0)], "policy_version": [4, 3, 2, 1, 0]})
    rows = rows_of(step, details)
    assert rows.column("policy_version", rows.last_step) == [2, 3, 4]
    with pytest.raises(InvalidRecord, match="lack 1 steps"):
        rows_of(step, details.slice(1))
    with pytest.raises(InvalidRecord, match="step_details"):
        rows_of(step).column("policy_version", rows.last_step)


@pytest.mark.parametrize("weight", [None, [1 / 6, 1 / 6, 1 / 18, 1 / 3, 1 / 12], [0.1, 0.2, 0.3, 0.4, 0.5]])
@pytest.mark.parametrize("mean", ["sum", "token-mean", "row-mean"])
@pytest.mark.parametrize("merge_by", ["trajectory", "none"])
def test_whatever_the_trainers_mean_the_loss_is_our_weighted_sum(
    made: Make, mean: Any, weight: Any, merge_by: Any
) -> None:
    step = made(weight=weight, merge_by=merge_by)
    rows = rows_of(step)
    term = np.cos(rows.tokens.astype(float))  # any function of the token
    due = rows.due(mean).astype(float) * term
    per_row = np.bincount(rows.row, due)
    trainer = {"sum": due.sum(), "token-mean": due.sum() / rows.terms.sum(), "row-mean": (per_row / rows.terms).mean()}
    reference = sum(
        weight * advantage * np.cos(token)
        for (_, _, token, weight, advantage, _), n in told(step).items()
        for _ in range(n)
    )
    assert trainer[mean] == pytest.approx(reference, rel=1e-5)


def test_the_usual_weights_leave_the_advantage_as_it_is(made: Make) -> None:
    rows = rows_of(made())
    assert rows.advantage is not None
    np.testing.assert_allclose(rows.due("token-mean"), rows.advantage, rtol=1e-6)


def test_what_is_absent_is_said(made: Make) -> None:
    rows = rows_of(made(bare=True))
    with pytest.raises(InvalidRecord, match="advantage"):
        rows.due("sum")
    with pytest.raises(InvalidRecord, match="old_logprobs=True"):
        rows.need_old_logprob()
    with pytest.raises(InvalidRecord, match="mean"):
        rows_of(made()).due("mean")  # type: ignore[arg-type]


def test_one_value_per_row_or_a_refusal(made: Make) -> None:
    rows = rows_of(made())
    assert rows.per_row("advantage", rows.due("token-mean")).tolist() == pytest.approx([0.5, -0.5, 2.0])
    steps = [("t", "g", [1], [2], 1.0), ("t", "g", [1, 2, 3], [4], -1.0)]
    mixed = rows_of(made(steps))
    with pytest.raises(InvalidRecord, match="merge='none'"):
        mixed.per_row("advantage", mixed.due("sum"))
    assert rows_of(made(steps, "none")).per_row("advantage", np.array([0, 1, 0, 0, 0, -1], np.float32)).tolist() == [
        1,
        -1,
    ]


def test_a_mask_that_holds_other_tokens_is_refused(made: Make) -> None:
    rows = rows_of(made())
    ids = rows.tokens[rows.trained]
    rows.check_valid(ids, "us")
    for wrong in (ids[1:], np.append(ids, 1), np.where(ids == 13, 3, ids)):
        with pytest.raises(InvalidRecord, match="sampled tokens became"):
            rows.check_valid(wrong, "us")
