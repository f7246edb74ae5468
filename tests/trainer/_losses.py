"""The losses of the field, each a sum over occurrences. All tensors [R], but for the number of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch  # pyright: ignore[reportMissingImports]

Tensor = Any


@dataclass(frozen=True)
class Terms:
    """One row per occurrence."""

    logprob: Tensor
    entropy: Tensor
    old: Tensor
    ref: Tensor
    advantage: Tensor
    weight: Tensor
    step: Tensor
    """The step's number, [0, steps)."""
    steps: int

    @property
    def ratio(self) -> Tensor:
        return (self.logprob - self.old).exp()


def policy_gradient(terms: Terms) -> Tensor:
    return -(terms.weight * terms.advantage * terms.logprob).sum()


def ppo_clip(terms: Terms) -> Tensor:
    return _clipped(terms, terms.ratio)


def grpo_kl(terms: Terms) -> Tensor:
    """PPO-clip and the `k3` estimate of the divergence from a reference (GRPO, arXiv 2402.03300)."""
    gap = terms.ref - terms.logprob
    return ppo_clip(terms) + 0.1 * (terms.weight * (gap.exp() - gap - 1)).sum()


def cispo(terms: Terms) -> Tensor:
    """Clipped importance weights that carry no gradient (arXiv 2506.13585)."""
    return -(terms.weight * terms.ratio.detach().clamp(max=1.2) * terms.advantage * terms.logprob).sum()


def gspo(terms: Terms) -> Tensor:
    """The ratio of a sequence, here a step: the geometric mean of its tokens' (arXiv 2507.18071)."""
    zeros = torch.zeros(terms.steps, dtype=terms.old.dtype)
    gaps = zeros.index_add(0, terms.step, terms.logprob - terms.old)
    counts = zeros.index_add(0, terms.step, torch.ones_like(terms.old))
    return _clipped(terms, (gaps / counts.clamp(min=1)).exp()[terms.step])


def ppo_entropy(terms: Terms) -> Tensor:
    return ppo_clip(terms) - 0.05 * (terms.weight * terms.entropy).sum()


def _clipped(terms: Terms, ratio: Tensor) -> Tensor:
    bounded = ratio.clamp(0.8, 1.2)
    return -(terms.weight * torch.minimum(ratio * terms.advantage, bounded * terms.advantage)).sum()


LOSSES: dict[str, Callable[[Terms], Tensor]] = {
    loss.__name__: loss for loss in (policy_gradient, ppo_clip, grpo_kl, cispo, gspo, ppo_entropy)
}
