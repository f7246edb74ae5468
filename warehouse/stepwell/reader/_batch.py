"""`TreeBatch`: steps merged into a forest of shared prefixes, as the flat arrays a trainer computes a loss from.

Compute is shared by token identity: every token of the batch stands for one full prefix, once. Loss belongs to the
sampling event: every trained (step, response token) is one *occurrence*, with its own old logprob, advantage and
weight, even where several steps sampled the same token after the same prefix. A trainer computes

    logprob = logp(head(hidden[target_source]), target_id)          # [U], each unique trained token once
    loss = f(logprob[occurrence_target], old_logprob, advantage, weight).sum()

with attention restricted to `k <= q < subtree_end[k]` and rotary positions from `position_ids`. That is the loss of
the unmerged steps as the same function of the parameters, so its gradient is equal too. It stays so only under a
*sum*: `weight` already holds the global normaliser. Under data parallelism gradients are averaged over ranks, which
needs a factor of the world size. Exactness ends where a token's result depends on more than its ancestors: dropout,
mixture-of-experts capacity limits, auxiliary losses, recurrent (state-space, linear-attention) layers.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader import _check, _torch
from stepwell.reader._arrays import F32, I32, I64, Array
from stepwell.reader._sequences import Sequences
from stepwell.reader._tree import PrefixTree

if TYPE_CHECKING:
    import torch  # pyright: ignore[reportMissingImports]


@dataclass(frozen=True, eq=False)
class TreeBatch:
    """One pack: T packed tokens, U unique trained tokens, R occurrences, S steps. `check()` runs when it is built.

    `old_logprob`, `ref_logprob` and `advantage` are None when they are absent. They are never filled with zeros,
    which would read as probability one or as "no preference".
    """

    input_ids: I32
    """[T] Tokens in depth-first order."""
    position_ids: I32
    """[T] Depth in the tree, which is the token's position in every step it belongs to."""
    subtree_end: I32
    """[T] Exclusive end of the token's subtree: query q sees key k when `k <= q < subtree_end[k]`."""
    parent: I32
    """[T] Packed position of the token before; -1 at a root."""
    tree_cu_seqlens: I32
    """[trees+1] Where each tree begins, and T."""
    target_source: I32
    """[U] Packed position whose hidden state predicts the target: its parent."""
    target_id: I32
    """[U] Label."""
    target_position: I32
    """[U] Packed position of the target itself; ascending."""
    occurrence_target: I32
    """[R] Row of U each occurrence reads its logprob from."""
    occurrence_step: I32
    """[R] Row of S it belongs to; ascending, and in the order of the response within a step."""
    occurrence_offsets: I32
    """[S+1] Step s owns occurrences `[occurrence_offsets[s], occurrence_offsets[s+1])`."""
    weight: F32
    """[R] Factor of each loss term, global normaliser included."""
    step_index: I64
    """[S] The caller's number of each step. Rows are in prefix order, not in the order they were given."""
    tree: PrefixTree
    """Chains, ancestor runs and response spans, for kernels that want them."""
    old_logprob: F32 | None = None
    """[R] Logprob under the policy that sampled."""
    ref_logprob: F32 | None = None
    """[R] Logprob under the reference policy."""
    advantage: F32 | None = None
    """[R]"""

    def __post_init__(self) -> None:
        self.check()

    @property
    def tokens_unmerged(self) -> int:
        """Tokens of all steps, each in full: what a trainer would compute without merging."""
        return int(self.tree.lengths.sum())

    @property
    def tokens_merged(self) -> int:
        """T."""
        return len(self.input_ids)

    @property
    def merge_ratio(self) -> float:
        """Unmerged over merged tokens; 1.0 when nothing is shared, and for an empty batch."""
        return self.tokens_unmerged / self.tokens_merged if self.tokens_merged else 1.0

    @property
    def occurrences(self) -> int:
        """R, the number of loss terms."""
        return len(self.occurrence_target)

    def sequence(self, step_row: int) -> I32:
        """Prompt and response of a row of the pack (i32), rebuilt from the tree by its parent links."""
        if not 0 <= step_row < len(self.step_index):
            raise InvalidRecord("step_row", f"{step_row} is not a row of this batch of {len(self.step_index)} steps")
        runs = self.tree.path(int(self.tree.last[step_row]))
        return np.concatenate([self.input_ids[start:stop] for start, stop in runs] or [self.input_ids[:0]])

    def check(self, sequences: Sequences | None = None) -> None:
        """Conservation: what is trained is what was sampled, no more and no less. O(T + R), vectorised.

        Without an argument, that the arrays agree with each other: lengths; parents precede; subtrees are those
        of the parent links; every target's source is its parent and its label is its token; each occurrence
        belongs to a step and a target, and no target is without. With the `sequences` the batch was merged from
        (as `merge` calls it), also that occurrences and trained tokens are equal in number step by step, that
        each occurrence's label is the very id sampled, at the same position, and that its old logprob is the one
        recorded.

        Raises:
            InvalidRecord: Names the array that breaks the rule.
        """
        _check.check_shapes(self)
        _check.check_tree(self)
        _check.check_loss_terms(self)
        if sequences is not None:
            _check.check_conservation(self, sequences)

    def arrays(self) -> dict[str, Array]:
        """The flat arrays by name, in the order above; absent ones are left out."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def to_torch(self) -> dict[str, torch.Tensor]:
        """`arrays()` as CPU tensors that share their memory.

        Raises:
            MissingExtra: PyTorch is not installed. It is not a dependency of Stepwell: a trainer brings its own.
        """
        return _torch.tensors(self.arrays())
