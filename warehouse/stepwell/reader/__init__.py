"""The reader: from stored steps to what a trainer computes on.

The turns of an agent repeat each other: the prompt of a step holds every step before it. Trained as they are
stored, most of the work is done many times over. This room merges steps that share prefixes into trees in which
every token is computed once, without changing the gradient:

    sequences = Sequences.from_arrow(prompt_ids, response_ids, logprobs)
    advantage = spread_to_steps(grpo(rewards, groups), trajectory_of_step)
    batch = merge(sequences, advantage=advantage)
    tensors = batch.to_torch()

`_sequences` is the checked input; `_prefix` sorts it and `_tree` turns the order into a forest; `_terms` holds what
each loss term is due; `_merge` assembles the `TreeBatch` of `_batch`, whose rules are code in `_check`; `_masks` speaks to
attention kernels; `_advantages` compares trajectories. `_dataset` reads a frozen dataset group by group, and `_usable` says what of
it must not be trained on. Everything is numpy over flat arrays, with no step of Python per
token, and PyTorch is imported only when tensors are asked for.
"""

from __future__ import annotations

from stepwell.reader._advantages import grpo, spread_to_steps
from stepwell.reader._batch import TreeBatch
from stepwell.reader._dataset import GroupBatch, read_groups
from stepwell.reader._masks import BlockLists, dense_mask, flex_block_lists
from stepwell.reader._merge import merge
from stepwell.reader._prefix import PrefixOrder, prefix_order
from stepwell.reader._sequences import Sequences
from stepwell.reader._tree import PrefixTree

__all__ = [
    "BlockLists",
    "GroupBatch",
    "PrefixOrder",
    "PrefixTree",
    "Sequences",
    "TreeBatch",
    "dense_mask",
    "flex_block_lists",
    "grpo",
    "merge",
    "prefix_order",
    "read_groups",
    "spread_to_steps",
]
