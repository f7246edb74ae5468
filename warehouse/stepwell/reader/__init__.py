"""The reader: from stored steps to what a trainer computes on.

The turns of an agent repeat each other: the prompt of a step holds every step before it. Trained as they are
stored, most of the work is done many times over. This room merges steps that share prefixes into trees in which
every token is computed once, without changing the gradient:

    reader = BatchReader(warehouse, dataset="math", advantage="grpo", max_tokens=65_536, ranks=8, groups_per_step=64)
    print(reader.plan())
    for batch in reader:                # one optimizer step
        for pack in batch.packs[rank]:  # a TreeBatch
            tensors = pack.to_torch()

or, with sequences of one's own, `merge(Sequences.from_arrow(prompt_ids, response_ids, logprobs), advantage=…)`.

`_sequences` is the checked input; `_prefix` sorts it, `_walk` and `_tree` turn the order into a forest; `_terms` holds what
each loss term is due; `_merge` assembles the `TreeBatch` of `_batch`, whose rules are code in `_check`; `_modes` are the ways to merge
and `_kernels` speaks to attention kernels. `_pack` cuts forests into packs and `_credit` says what steps are due. `_select` decides from
columns which steps train, `_plan` what they will take, and `_read` streams them. `_dataset` reads a frozen dataset group by group, and
`_export` writes an epoch of one down. `_realise` makes token ids for steps that have only text, `_media` tells images apart,
whose ids are alike, and `_layout` draws a tree.
Everything is numpy over flat arrays, with no step of Python per token, and PyTorch is imported only when tensors are asked for.
"""

from __future__ import annotations

from stepwell.reader._advantages import grpo, spread_to_steps
from stepwell.reader._batch import TreeBatch
from stepwell.reader._credit import Advantage, LossWeights, Rollouts, gradient_factor
from stepwell.reader._dataset import GroupBatch, read_groups
from stepwell.reader._export.export import Exported, export_dataset
from stepwell.reader._kernels import (
    BlockLists,
    MagiSlices,
    VarlenInputs,
    dense_mask,
    flashmask_rows,
    flex_block_lists,
    magi_slices,
    varlen_inputs,
)
from stepwell.reader._layout.icicle import Icicle, icicle
from stepwell.reader._layout.nodes import PrefixNodes
from stepwell.reader._merge import merge
from stepwell.reader._pack.packing import Pack, Packing, pack_forest
from stepwell.reader._plan.report import Plan, StepReport
from stepwell.reader._prefix import PrefixOrder, prefix_order
from stepwell.reader._read.batches import TreeBatches
from stepwell.reader._read.reader import BatchReader
from stepwell.reader._realise.encode import TiktokenEncoder, TokenizersEncoder
from stepwell.reader._realise.media import keyed_by_media
from stepwell.reader._realise.realise import Realiser, realised_counts
from stepwell.reader._realise.template import ChatTemplate
from stepwell.reader._realise.texts import TokenTexts
from stepwell.reader._sequences import Sequences
from stepwell.reader._tree import PrefixTree

__all__ = [
    "Advantage",
    "BatchReader",
    "BlockLists",
    "ChatTemplate",
    "Exported",
    "GroupBatch",
    "Icicle",
    "LossWeights",
    "MagiSlices",
    "Pack",
    "Packing",
    "Plan",
    "PrefixNodes",
    "PrefixOrder",
    "PrefixTree",
    "Realiser",
    "Rollouts",
    "Sequences",
    "StepReport",
    "TiktokenEncoder",
    "TokenTexts",
    "TokenizersEncoder",
    "TreeBatch",
    "TreeBatches",
    "VarlenInputs",
    "dense_mask",
    "export_dataset",
    "flashmask_rows",
    "flex_block_lists",
    "gradient_factor",
    "grpo",
    "icicle",
    "keyed_by_media",
    "magi_slices",
    "merge",
    "pack_forest",
    "prefix_order",
    "read_groups",
    "realised_counts",
    "spread_to_steps",
    "varlen_inputs",
]
