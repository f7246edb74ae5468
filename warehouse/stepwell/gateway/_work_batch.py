"""One optimizer step to be looked at: packs by rank, their steps, the mask of one pack, and the fields that a trainer gets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from stepwell.reader import TreeBatch, TreeBatches
    from stepwell.warehouse import Warehouse

__all__ = ["adapter_fields", "batch_of"]

_STEPS = 500
"""Steps that are named, over all packs."""
_PACKS = 512
"""Packs that are described one by one."""
_BLOCKS = 96
"""Blocks per side of the mask that is shown."""
_CELLS = 8_000_000
"""Of an adapter's padded arrays: rows times the longest row."""
_MODEL = {"parameters": 7e9, "layers": 32, "width": 4096}
"""The dense model that operations are estimated for."""


def batch_of(batches: TreeBatches) -> dict[str, Any]:
    """The optimizer step in figures; bounded, whatever its size."""
    places = [(rank, number, pack) for rank, packs in enumerate(batches.packs) for number, pack in enumerate(packs)]
    budget = iter(range(_STEPS))
    names = dict(zip(batches.steps["step_index"].to_pylist(), batches.steps.to_pylist(), strict=True))
    packs = [
        {"rank": rank, "number": number, **_pack(pack), "named": list(_steps(pack, names, budget))}
        for rank, number, pack in places[:_PACKS]
    ]
    return {
        "number": batches.number,
        "ranks": len(batches.packs),
        "tokens_by_rank": [sum(pack.tokens_merged for pack in packs) for packs in batches.packs],
        "packs": packs,
        "packs_left_out": len(places) - len(packs),
        "skipped": dict(batches.skipped),
        "level_groups": batches.level_groups,
        "operations": _operations([pack for _, _, pack in places]),
        "mask": _mask([place for place in places if place[2].tokens_merged]),
    }


def _pack(pack: TreeBatch) -> dict[str, Any]:
    return {
        "tokens": pack.tokens_merged,
        "tokens_naive": pack.tokens_unmerged,
        "steps": len(pack.step_index),
        "terms": pack.occurrences,
        "trees": len(pack.tree_cu_seqlens) - 1,
    }


def _steps(pack: TreeBatch, names: Mapping[int, Mapping[str, Any]], budget: Iterator[int]) -> Iterator[dict[str, Any]]:
    """Its first steps, with what each is due: advantage and weight are equal for all terms of a step."""
    first, terms = pack.occurrence_offsets[:-1].tolist(), np.diff(pack.occurrence_offsets).tolist()
    for row, step in enumerate(pack.step_index.tolist()):
        if next(budget, None) is None:
            return
        one = names[step]
        due = {"advantage": pack.advantage, "weight": pack.weight}
        yield {
            **{name: one[name] for name in ("step_id", "trajectory_id", "group_id")},
            "tokens": int(pack.tree.lengths[row]),
            "shared": int(pack.tree.shared[row]),
            "terms": terms[row],
            **{name: float(of[first[row]]) if of is not None and terms[row] else None for name, of in due.items()},
        }


def _operations(packs: list[TreeBatch]) -> dict[str, Any]:
    """Tokens and pairs of tokens (query, key) that are computed, and what merging saves of a forward pass of a dense model."""
    naive = merged = naive_pairs = merged_pairs = 0
    for pack in packs:
        lengths, shared = pack.tree.lengths, pack.tree.shared
        naive, merged = naive + int(lengths.sum()), merged + pack.tokens_merged
        whole = int((lengths * (lengths + 1) // 2).sum())
        naive_pairs, merged_pairs = naive_pairs + whole, merged_pairs + whole - int((shared * (shared + 1) // 2).sum())
    per_token, per_pair = 2 * _MODEL["parameters"], 4 * _MODEL["layers"] * _MODEL["width"]
    cost = merged * per_token + merged_pairs * per_pair
    return {
        "tokens": {"naive": naive, "computed": merged},
        "pairs": {"naive": naive_pairs, "computed": merged_pairs},
        "ratio": (naive * per_token + naive_pairs * per_pair) / cost if cost else 1.0,
        "model": _MODEL,
    }


def _mask(places: list[tuple[int, int, TreeBatch]]) -> dict[str, Any] | None:
    """Of the smallest pack in which steps share something, else of the smallest: for each block of queries, which keys it sees."""
    from stepwell.reader import flex_block_lists

    if not places:
        return None
    rank, number, pack = min(places, key=lambda place: (not place[2].tree.shared.any(), place[2].tokens_merged))
    block = -(-pack.tokens_merged // _BLOCKS)
    lists = flex_block_lists(pack, block)
    rows = range(len(lists.kv_num_blocks))
    return {
        "rank": rank,
        "number": number,
        "tokens": pack.tokens_merged,
        "block": block,
        "partial": [lists.kv_indices[row, : lists.kv_num_blocks[row]].tolist() for row in rows],
        "full": [lists.full_kv_indices[row, : lists.full_kv_num_blocks[row]].tolist() for row in rows],
    }


def adapter_fields(warehouse: Warehouse, batches: TreeBatches, trainer: str, at: int) -> dict[str, Any]:
    """What the trainer gets of this optimizer step: names, types and shapes, or why there is nothing.

    Raises:
        InvalidRecord: the adapter refuses the batch.
    """
    from stepwell.reader import adapters

    rows = adapters.rows_of(batches, adapters.step_details(warehouse, batches, at=at))
    cells = len(rows) * int(rows.lengths.max(initial=0))
    if cells > _CELLS:
        why = f"{len(rows)} rows, padded to {int(rows.lengths.max())} tokens: too many to be shown; set groups_per_step"
        return {"trainer": trainer, "function": None, "rows": len(rows), "fields": None, "left_out": why}
    makers: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "areal": (adapters.to_areal, {}),
        "prime-rl": (adapters.to_prime_rl, {"env_name": "env"}),
        "skyrl": (adapters.to_skyrl, {}),
        "slime": (adapters.to_slime, {}),
        "tinker": (adapters.to_tinker, {}),
        "trl-async": (adapters.to_trl_async, {}),
        "trl-grpo": (adapters.to_trl_grpo, {"pad": 0}),
        "trl-sft": (adapters.to_trl_sft, {}),
        "verl": (adapters.to_verl, {"pad": 0}),
    }
    make, settings = makers[trainer]
    fields = _form(make(rows, **settings))
    return {"trainer": trainer, "function": make.__name__, "rows": len(rows), "fields": fields, "left_out": None}


def _form(value: Any) -> Any:
    """What a value is made of: names, types, shapes; of a list its length and its first item."""
    if isinstance(value, np.ndarray):
        return {"dtype": str(value.dtype), "shape": list(value.shape)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _form(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): _form(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return {"items": len(value), "each": _form(value[0]) if value else None}
    return type(value).__name__
