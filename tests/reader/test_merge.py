"""The merged batch against a trie built the slow way, and its loss against the unmerged one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.errors import InvalidRecord
from stepwell.reader import PrefixOrder, Sequences, TreeBatch, dense_mask, merge, prefix_order


def walk(batch: TreeBatch, tokens: list[int]) -> list[int]:
    """Packed positions of a sequence, found by following children from a root."""
    children = {(int(p), int(t)): i for i, (p, t) in enumerate(zip(batch.parent, batch.input_ids, strict=True))}
    assert len(children) == batch.tokens_merged, "siblings must differ"
    path = [-1]
    for token in tokens:
        path.append(children[path[-1], token])
    return path[1:]


@settings(deadline=None)
@given(data=st.data(), masked=st.booleans(), logprobs=st.booleans())
def test_every_step_is_in_the_tree_and_every_trained_token_in_the_loss(
    branching_steps: Any,
    to_sequences: Callable[..., Sequences],
    new_trie: Any,
    data: st.DataObject,
    masked: bool,
    logprobs: bool,
) -> None:
    steps = data.draw(branching_steps)
    sequences = to_sequences(steps, masked=masked, logprobs=logprobs)
    advantage = np.arange(len(steps), dtype=np.float32) - 2
    batch = merge(sequences, advantage=None if not steps else advantage)
    trie = new_trie()
    for step in steps:
        trie.insert(step.tokens)
    assert batch.tokens_merged == len(trie.parents)
    assert batch.tokens_unmerged == sum(len(step.tokens) for step in steps)
    assert sorted(batch.step_index.tolist()) == [10 * i + 7 for i in range(len(steps))]
    trained_positions = set()
    for row, step in enumerate(steps[(index - 7) // 10] for index in batch.step_index.tolist()):
        path = walk(batch, step.tokens)
        assert batch.sequence(row).tolist() == step.tokens
        assert batch.position_ids[path].tolist() == list(range(len(path)))
        keep = np.array(step.trained, bool) if masked else np.ones(len(step.response), bool)
        wanted = np.array(path[len(step.prompt) :], int)[keep]
        terms = slice(*batch.occurrence_offsets[row : row + 2])
        assert batch.target_position[batch.occurrence_target[terms]].tolist() == wanted.tolist()
        assert (batch.occurrence_step[terms] == row).all()
        if batch.old_logprob is not None:
            assert batch.old_logprob[terms].tolist() == np.array(step.logprobs)[keep].tolist()
        if batch.advantage is not None:
            assert (batch.advantage[terms] == advantage[(batch.step_index[row] - 7) // 10]).all()
        trained_positions.update(wanted.tolist())
    assert batch.target_position.tolist() == sorted(trained_positions)
    assert batch.target_id.tolist() == batch.input_ids[batch.target_position].tolist()
    assert batch.target_source.tolist() == batch.parent[batch.target_position].tolist()
    assert batch.occurrences == sequences.trained_total
    assert batch.weight.sum() == pytest.approx(1 if batch.occurrences else 0, rel=1e-5)


@settings(deadline=None)
@given(data=st.data())
def test_the_order_of_the_input_does_not_change_the_tree(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    steps = data.draw(branching_steps)
    shuffled = data.draw(st.permutations(steps))
    one, other = merge(to_sequences(steps)), merge(to_sequences(shuffled))
    for name in ("input_ids", "parent", "subtree_end", "tree_cu_seqlens", "target_position"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()


@settings(deadline=None)
@given(data=st.data())
def test_packs_of_one_order_add_up_to_the_whole(
    branching_steps: Any, to_sequences: Callable[..., Sequences], data: st.DataObject
) -> None:
    sequences = to_sequences(data.draw(branching_steps))
    whole = prefix_order(sequences)
    cut = data.draw(st.integers(0, len(sequences)))
    packs = []
    for part in (slice(0, cut), slice(cut, None)):
        shared = whole.shared[part].copy()
        shared[:1] = 0
        packs.append(merge(sequences, prefixes=PrefixOrder(whole.order[part], shared)))
    assert sum(pack.occurrences for pack in packs) == sequences.trained_total
    weights = sum(float(pack.weight.sum()) for pack in packs)
    assert weights == pytest.approx(1 if sequences.trained_total else 0, rel=1e-5)
    rebuilt = [pack.sequence(row).tolist() for pack in packs for row in range(len(pack.step_index))]
    assert rebuilt == [merge(sequences).sequence(row).tolist() for row in range(len(sequences))]


def test_a_depth_first_order_need_not_be_the_sorted_one(branched: Sequences) -> None:
    order = PrefixOrder(np.array([3, 0, 2, 1]), np.array([0, 4, 3, 3]))
    batch = merge(branched, prefixes=order)
    rows = [batch.sequence(row).tolist() for row in range(4)]
    assert rows == [[1, 2, 3, 4, 9, 6], [1, 2, 3, 4], [1, 2, 3], [1, 2, 3, 5]]
    assert batch.tokens_merged == 7


def test_an_order_that_claims_too_much_is_caught(branched: Sequences) -> None:
    with pytest.raises(InvalidRecord, match="target_id: entry 3 must be the id the step sampled"):
        merge(branched, prefixes=PrefixOrder(np.array([0, 1]), np.array([0, 4])))


def test_the_arrays_of_a_small_tree(branched: Sequences) -> None:
    batch = merge(branched, advantage=[1, -1, 0.5, 2], ref_logprob=[0, 1, 2, 3, 4, 5])
    assert batch.step_index.tolist() == [102, 100, 103, 101]
    assert batch.input_ids.tolist() == [1, 2, 3, 4, 9, 6, 5]
    assert batch.position_ids.tolist() == [0, 1, 2, 3, 4, 5, 3]
    assert batch.parent.tolist() == [-1, 0, 1, 2, 3, 4, 2]
    assert batch.subtree_end.tolist() == [7, 7, 7, 6, 6, 6, 7]
    assert batch.tree_cu_seqlens.tolist() == [0, 7]
    assert batch.target_position.tolist() == [2, 3, 5, 6]
    assert batch.target_source.tolist() == [1, 2, 4, 2]
    assert batch.occurrence_target.tolist() == [0, 0, 1, 2, 0, 3]
    assert batch.occurrence_step.tolist() == [0, 1, 1, 2, 3, 3]
    assert batch.old_logprob is not None
    assert batch.old_logprob.tolist() == pytest.approx([-0.5, -0.1, -0.2, -0.6, -0.3, -0.4])
    assert batch.ref_logprob is not None
    assert batch.ref_logprob.tolist() == [4, 0, 1, 5, 2, 3]
    assert batch.advantage is not None
    assert batch.advantage.tolist() == [0.5, 1, 1, 2, -1, -1]


def test_what_is_absent_stays_absent() -> None:
    batch = merge(Sequences.from_lists([[1]], [[2]]))
    assert (batch.old_logprob, batch.ref_logprob, batch.advantage) == (None, None, None)


def test_a_step_without_a_reward_must_be_left_out(branched: Sequences) -> None:
    advantage = np.array([1, np.nan, 1, 1], np.float32)
    with pytest.raises(InvalidRecord, match=r"advantage: step 101 \(row 1\) has the value nan"):
        merge(branched, advantage=advantage)
    kept = np.flatnonzero(~np.isnan(advantage))
    assert merge(branched.select(kept), advantage=advantage[kept]).occurrences == 4


def test_nothing_to_merge_is_an_empty_batch() -> None:
    batch = merge(Sequences.from_lists([], []))
    assert (batch.tokens_merged, batch.occurrences, batch.merge_ratio) == (0, 0, 1.0)
    assert batch.tree_cu_seqlens.tolist() == [0]


# The gradient. A model small enough to differentiate by hand: a recurrent state that depends on every token of the
# prefix, softmax over a vocabulary with weights `theta`. Merged, it computes each state once, from its parent's.

VOCAB, WIDTH = 5, 7
Loss = Callable[..., tuple[Any, Any]]


def advance(state: Any, token: int) -> Any:
    return np.cos(1.7 * np.roll(state, 1) + np.sin(np.arange(WIDTH) * (token + 1.3)))


def log_softmax_grad(theta: Any, state: Any, label: int) -> tuple[float, Any]:
    """logprob of `label` after `state`, and its gradient in theta [VOCAB, WIDTH]."""
    logits = theta @ state
    probability = np.exp(logits - logits.max())
    probability /= probability.sum()
    return float(np.log(probability[label])), np.outer(np.eye(VOCAB)[label] - probability, state)


def reinforce(logprob: Any, old: Any, advantage: Any) -> tuple[Any, Any]:
    return -advantage * logprob, -advantage


def ppo_clip(logprob: Any, old: Any, advantage: Any) -> tuple[Any, Any]:
    ratio = np.exp(logprob - old)
    clipped = np.clip(ratio, 0.8, 1.2)
    inside = ratio * advantage <= clipped * advantage
    return -np.minimum(ratio * advantage, clipped * advantage), np.where(inside, -advantage * ratio, 0.0)


def unmerged(theta: Any, steps: list[Any], advantage: Any, weight: float, loss: Loss) -> tuple[float, Any]:
    total, grad = 0.0, np.zeros_like(theta)
    for step, own in zip(steps, advantage, strict=True):
        state = np.zeros(WIDTH)
        for place, token in enumerate(step.tokens):
            at = place - len(step.prompt)
            if at >= 0 and step.trained[at]:
                logprob, gradient = log_softmax_grad(theta, state, token)
                value, slope = loss(logprob, np.float64(np.float32(step.logprobs[at])), own)
                total, grad = total + weight * value, grad + weight * slope * gradient
            state = advance(state, token)
    return total, grad


def target_logprobs(batch: TreeBatch, theta: Any) -> tuple[Any, Any]:
    """[U] and [U, VOCAB, WIDTH]: each packed token's state once, from its parent's."""
    states: list[Any] = []
    for parent, token in zip(batch.parent.tolist(), batch.input_ids.tolist(), strict=True):
        states.append(advance(states[parent] if parent >= 0 else np.zeros(WIDTH), token))
    pairs = zip(batch.target_source.tolist(), batch.target_id.tolist(), strict=True)
    found = [log_softmax_grad(theta, states[source], label) for source, label in pairs]
    gradients = np.array([g for _, g in found]).reshape(-1, VOCAB, WIDTH)
    return np.array([value for value, _ in found]), gradients


def merged(batch: TreeBatch, theta: Any, loss: Loss) -> tuple[float, Any]:
    logprob, gradient = target_logprobs(batch, theta)
    assert batch.old_logprob is not None
    assert batch.advantage is not None
    use = batch.occurrence_target
    value, slope = loss(logprob[use], batch.old_logprob.astype(float), batch.advantage.astype(float))
    weight = batch.weight.astype(float)
    return float((weight * value).sum()), np.einsum("r,rvw->vw", weight * slope, gradient[use])


@pytest.mark.parametrize("loss", [reinforce, ppo_clip])
@settings(deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_merged_and_unmerged_loss_and_gradient_are_equal(
    branching_steps: Any, to_sequences: Callable[..., Sequences], loss: Loss, data: st.DataObject, seed: int
) -> None:
    steps = data.draw(branching_steps.filter(lambda s: any(any(step.trained) for step in s)))
    random = np.random.default_rng(seed)
    theta = random.normal(size=(VOCAB, WIDTH))
    advantage = random.normal(size=len(steps)).astype(np.float32)
    batch = merge(to_sequences(steps, masked=True), advantage=advantage)
    weight = float(np.float32(1 / batch.occurrences))
    total, gradient = unmerged(theta, steps, advantage.astype(float), weight, loss)
    found, found_gradient = merged(batch, theta, loss)
    scale = max(1.0, float(np.abs(gradient).max()), abs(total))
    assert abs(found - total) <= 1e-10 * scale
    assert np.abs(found_gradient - gradient).max() <= 1e-10 * scale


def shared_first_token() -> tuple[Sequences, Any]:
    """Two answers that begin alike, with opposite advantages and different old logprobs."""
    sequences = Sequences.from_lists([[0, 1]] * 2, [[2, 3], [2, 4]], [[-1.5, -1.2], [-1.9, -1.0]])
    return sequences, np.array([1.0, -0.4], np.float32)


def test_averaging_the_occurrences_of_a_token_is_another_gradient() -> None:
    batch = merge(*shared_first_token()[:1], advantage=shared_first_token()[1])
    theta = np.random.default_rng(0).normal(size=(VOCAB, WIDTH))
    _, right = merged(batch, theta, ppo_clip)
    logprob, gradient = target_logprobs(batch, theta)
    assert batch.old_logprob is not None
    assert batch.advantage is not None
    counts = np.bincount(batch.occurrence_target)
    old, advantage, weight = (
        np.bincount(batch.occurrence_target, values) / counts
        for values in (batch.old_logprob, batch.advantage, batch.weight)
    )
    _, slope = ppo_clip(logprob, old, advantage)
    for factor in (weight, weight * counts):
        averaged = np.einsum("u,uvw->vw", factor * slope, gradient)
        assert np.abs(averaged - right).max() > 1e-2 * np.abs(right).max()
    first = np.unique(batch.occurrence_target, return_index=True)[1]
    _, slope = ppo_clip(logprob, batch.old_logprob[first].astype(float), batch.advantage[first].astype(float))
    claimed = np.einsum("u,uvw->vw", batch.weight[first] * slope, gradient)
    assert np.abs(claimed - right).max() > 1e-2 * np.abs(right).max()


def test_a_plain_causal_mask_and_the_position_before_are_other_contexts() -> None:
    batch = merge(shared_first_token()[0])
    assert batch.target_source.tolist() != (batch.target_position - 1).tolist()
    assert not np.array_equal(dense_mask(batch), np.tri(batch.tokens_merged, dtype=bool))
    assert batch.position_ids.tolist() != list(range(batch.tokens_merged))
