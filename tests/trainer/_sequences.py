"""GSPO with a trajectory as the sequence: one ratio over all of its steps, wherever merging and packing put them.

A ratio is the geometric mean of those of its tokens, so that a pack which has only some of them needs two numbers of the others: how many
they are, and the sum of their gaps. And the loss terms in other packs depend on the tokens of this one. Each trajectory's loss is
linear in what its terms weigh, so two more numbers stand for those: what goes up and what goes down with the ratio. All four are sums
over terms, found in a first pass without gradients (between ranks, an all-reduce); then each pack takes the gradient by its own tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch  # pyright: ignore[reportMissingImports]
from tests.trainer._gradients import attention, of_terms, terms_of
from tests.trainer._losses import Terms
from tests.trainer._model import Parameters, Tensor

from stepwell.reader import TreeBatch


class Sums(NamedTuple):
    """Of each sequence, over its terms. All tensors [sequences]."""

    gap: Tensor
    """Logprobs less the old ones."""
    count: Tensor
    up: Tensor
    """Weights times positive advantages."""
    down: Tensor
    """... negative ones."""

    def plus(self, other: Sums) -> Sums:
        return Sums(*(one + more for one, more in zip(self, other, strict=True)))


def sums_of(terms: Terms, sequence: Tensor, sequences: int) -> Sums:
    """`sequence`: i64 [R], whose each term is."""
    credit = terms.weight * terms.advantage
    values = (terms.logprob - terms.old, torch.ones_like(terms.old), credit.clamp(min=0), credit.clamp(max=0))
    return Sums(*(torch.zeros(sequences, dtype=one.dtype).index_add(0, sequence, one) for one in values))


def loss_of(own: Sums, every: Sums) -> Tensor:
    """The loss of the sequences that a pack has terms of, as a function of its own tokens: the other tokens' numbers are constants."""
    gap = own.gap + (every.gap - own.gap).detach()
    ratio = (gap / every.count.clamp(min=1)).exp()
    bounded = ratio.clamp(0.8, 1.2)
    lost = every.up * torch.minimum(ratio, bounded) + every.down * torch.maximum(ratio, bounded)
    return -lost[own.count > 0].sum()


def gradient(parameters: Parameters, packs: Sequence[TreeBatch], sequence: Tensor) -> Tensor:
    """Over all packs of all ranks. `sequence`: i64 [N] by `step_index`."""
    count = int(sequence.max()) + 1
    found = [(terms, sums_of(terms, of, count)) for terms, of in (_terms(parameters, pack, sequence) for pack in packs)]
    every = Sums(*(torch.zeros(count, dtype=one.dtype) for one in found[0][1]))
    for _, own in found:
        every = every.plus(Sums(*(values.detach() for values in own)))
    parts = [_of(parameters, terms, loss_of(own, every)) for terms, own in found]
    return torch.stack(parts).sum(0)


def gradient_of_each_pack(parameters: Parameters, packs: Sequence[TreeBatch], sequence: Tensor) -> Tensor:
    """A mistake: every pack takes what it has of a trajectory for all of it."""
    count = int(sequence.max()) + 1
    parts = []
    for pack in packs:
        terms, of = _terms(parameters, pack, sequence)
        own = sums_of(terms, of, count)
        parts.append(_of(parameters, terms, loss_of(own, own)))
    return torch.stack(parts).sum(0)


def gradient_of_own_terms(parameters: Parameters, packs: Sequence[TreeBatch], sequence: Tensor) -> Tensor:
    """Another: ratios are those of whole trajectories, but a pack forgets that terms in others depend on its tokens."""
    count = int(sequence.max()) + 1
    found = [(terms, sums_of(terms, of, count)) for terms, of in (_terms(parameters, pack, sequence) for pack in packs)]
    gap, tokens = (sum(getattr(own, name).detach() for _, own in found) for name in ("gap", "count"))
    parts = [_of(parameters, terms, loss_of(own, own._replace(gap=gap, count=tokens))) for terms, own in found]
    return torch.stack(parts).sum(0)


def _terms(parameters: Parameters, pack: TreeBatch, sequence: Tensor) -> tuple[Terms, Tensor]:
    tensors = pack.to_torch()
    tensors.setdefault("ref_logprob", tensors["old_logprob"])
    terms = terms_of(parameters, tensors, attention(pack, "chains"))
    return terms, sequence[tensors["step_index"]][terms.step]


def _of(parameters: Parameters, terms: Terms, loss: Tensor) -> Tensor:
    return of_terms(parameters, terms, {"loss": lambda _: loss})["loss"]
