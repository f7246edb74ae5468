"""Steps that branch in every way agents make them branch, with records of a policy that was a little different when it sampled them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._model import Parameters, Shape, causal, hidden, logprobs, new_parameters

from stepwell.reader import Sequences

Ids = list[int]
Turn = tuple[Ids, Ids]
"""Prompt and response."""
SHAPE = Shape()


@dataclass(frozen=True)
class Records:
    """N steps as they were recorded. Responses have as many flags and logprobs as ids."""

    turns: list[Turn]
    trained: list[Any]
    old: list[Any]
    ref: list[Any]
    advantage: Any
    """f32 [N]"""
    weight: Any = None
    """f32 [N] of a term of each step; by default one over the trained tokens of all."""
    sequence: Any = None
    """i64 [N] the sequence that each step belongs to, for ratios of sequences; by default each is one."""

    def sequences(self) -> Sequences:
        prompts, responses = zip(*self.turns, strict=True)
        return Sequences.from_lists(prompts, responses, self.old, loss_mask=self.trained)

    @property
    def terms(self) -> int:
        return int(sum(flags.sum() for flags in self.trained))


def records(name: str, seed: int = 0) -> Records:
    """A workload by its name in `WORKLOADS`, shuffled; a tenth of the sampled tokens is not trained."""
    random = np.random.default_rng(seed)
    turns = WORKLOADS[name](random)
    turns = [turns[at] for at in random.permutation(len(turns))]
    return records_of(turns, random, trained=0.9)


def records_of(turns: list[Turn], random: np.random.Generator, *, trained: float = 1, advantage: Any = None) -> Records:
    """With each token trained by that probability, and random advantages unless some are given, [N]."""
    parameters = new_parameters(SHAPE, torch.float64)
    sampled = [_sampled(parameters, turn) for turn in turns]
    old, ref = ([(own + random.normal(0, 0.25, len(own))).astype(np.float32) for own in sampled] for _ in range(2))
    if advantage is None:
        advantage = random.normal(0, 1, len(turns))
    flags = [random.random(len(own)) < trained for own in sampled]
    return Records(turns, flags, old, ref, advantage.astype(np.float32))


def _sampled(parameters: Parameters, turn: Turn) -> Any:
    """What the model at hand gives the response: recorded logprobs lie around it, so that some ratios clip and others do not."""
    ids = torch.tensor(turn[0] + turn[1])
    first = len(turn[0])
    with torch.no_grad():
        states = hidden(parameters, SHAPE, parameters["embed"][ids], torch.arange(len(ids)), causal)
        return logprobs(parameters, states[first - 1 : -1], ids[first:])[0].numpy()


def _ids(random: np.random.Generator, count: int) -> Ids:
    found: Ids = random.integers(3, SHAPE.vocabulary, count).tolist()
    return found


def _trajectory(random: np.random.Generator, opening: Ids, turns: int, first: Ids | None = None) -> list[Turn]:
    """Each prompt is the one before, its response, and an observation."""
    found, context = [], opening
    for turn in range(turns):
        response = [*(first or [] if turn == 0 else []), *_ids(random, int(random.integers(4, 12)))]
        found.append((context, response))
        context = [*context, *response, *_ids(random, int(random.integers(2, 8)))]
    return found


def one_trajectory(random: np.random.Generator) -> list[Turn]:
    return _trajectory(random, _ids(random, 20), 5)


def groups(random: np.random.Generator) -> list[Turn]:
    """Two prompts behind one system prompt, four rollouts each; the first answers of a group begin alike."""
    system, found = _ids(random, 15), []
    for _ in range(2):
        task, alike = [*system, *_ids(random, 10)], _ids(random, 6)
        for _ in range(4):
            found += _trajectory(random, task, 3, alike[: int(random.integers(0, 7))])
    return found


def single_turns(random: np.random.Generator) -> list[Turn]:
    prompt, alike = _ids(random, 25), _ids(random, 10)
    return [(prompt, alike[: int(random.integers(0, 11))] + _ids(random, 12)) for _ in range(8)]


def rewritten(random: np.random.Generator) -> list[Turn]:
    """Histories whose tail comes back in other tokens, a sub-agent with a prompt of its own, and a compaction."""
    task, alike, found = _ids(random, 20), _ids(random, 3), []
    for _ in range(2):
        past = _trajectory(random, task, 4, alike)
        context, response = past[2]
        found += past
        found += _trajectory(
            random, [*context[: len(task) + 5], *_ids(random, 9)], 2
        )  # re-tokenised from inside a response on
        found += _trajectory(random, [*context, *response[:2], *_ids(random, 4)], 1)
        found += _trajectory(random, _ids(random, 7), 2)  # the sub-agent
        found += _trajectory(random, [*task, *_ids(random, 6)], 2)  # a summary in the place of the history
    return found


def rewritten_rollouts(random: np.random.Generator, groups: int, rollouts: int) -> list[list[Turn]]:
    """Turns by rollout, group by group, one to four each; in every second one the history comes back in other tokens after a while."""
    system, found = _ids(random, 15), []
    for _ in range(groups):
        task, alike = [*system, *_ids(random, 8)], _ids(random, 5)
        for number in range(rollouts):
            turns = _trajectory(random, task, 1 + number % 4, alike)
            if number % 2:
                context, response = turns[-1]
                turns += _trajectory(random, [*context, *response[:2], *_ids(random, 5)], 2)
            found.append(turns)
    return found


def corners(random: np.random.Generator) -> list[Turn]:
    """Duplicates, strict prefixes, branches within a response, tokens trained here and context there."""
    p, a, b = _ids(random, 14), _ids(random, 12), _ids(random, 7)
    same, shorter, inside = (p, a), (p, a[:6]), (p, a[:6] + b)
    context = [(p + a[:3], a[3:9]), (p[:8], p[8:13]), (p[:8], p[8:] + a[:2])]
    later = [(p + a + b, _ids(random, 5)), (p + a + b[:3], _ids(random, 4)), (p + a, _ids(random, 1))]
    apart = [(_ids(random, 9), _ids(random, 6)), (p[:1], _ids(random, 5)), (p, [])]
    return [same, same, shorter, inside, *context, *later, *apart]


WORKLOADS: dict[str, Callable[[np.random.Generator], list[Turn]]] = {
    workload.__name__: workload for workload in (one_trajectory, groups, single_turns, rewritten, corners)
}
BRANCHING = [name for name in WORKLOADS if name != "one_trajectory"]
