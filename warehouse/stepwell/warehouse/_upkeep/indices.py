"""Indices: made when a table has grown enough to need them, and extended as it grows.

What is newer than an index is scanned, so an index that is behind gives the same answers, only later. A commit never waits for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import lance

WORTH = 10_000
"""Rows below which none is made: such a table is scanned in the milliseconds that a look-up in an index takes."""

TAIL = 1 / 8
"""The part of a table that may be newer than its indices. As extending rewrites an index, it is done each time the table has
grown by so much, which costs a row about nine rewrites of its few bytes, however large the table becomes."""

TEXT_TAIL = 1 / 2
"""The same for full-text indices, which cost a hundred times more to extend, and which only people wait for."""

Kind = Literal["BTREE", "BITMAP", "LABEL_LIST", "INVERTED"]

_TREE: Kind = "BTREE"
_FEW: Kind = "BITMAP"
_LISTS: Kind = "LABEL_LIST"
_WORDS: Kind = "INVERTED"

INDICES: Mapping[str, Mapping[str, Kind]] = {
    "steps": {
        **dict.fromkeys(
            ("step_id", "trajectory_id", "prompt_id", "group_id", "response_id", "conversation_key", "continues"), _TREE
        ),
        **dict.fromkeys(("status", "source", "split", "policy_version"), _FEW),
        "tags": _LISTS,
        **dict.fromkeys(("messages_suffix", "response"), _WORDS),
    },
    "events": dict.fromkeys(("event_id", "target_id"), _TREE),
    "exchanges": dict.fromkeys(("exchange_id", "trajectory_id"), _TREE),
    "payloads": {"payload_id": _TREE},
    "dataset_rows": {"dataset_id": _TREE},
    "trajectories": dict.fromkeys(("trajectory_id", "group_id", "prompt_id"), _TREE),
    "groups": {"group_id": _TREE},
}
"""By table and column, the kind of index."""

_WORD_OPTIONS = {
    "stem": False,  # code and names are not English
    "memory_limit": 256,  # MiB
    "num_workers": 1,
}


def lacking(dataset: lance.LanceDataset, table: str, *, worth: int = WORTH) -> dict[str, str | None]:
    """What is to be done: by column, the name of the index that is to be extended, or None where there is none yet."""
    rows = dataset.count_rows()
    if rows < worth:
        return {}
    there = {index.field_names[0]: index for index in dataset.describe_indices() if len(index.field_names) == 1}
    todo: dict[str, str | None] = {}
    for column, kind in INDICES.get(table, {}).items():
        index = there.get(column)
        if index is None:
            todo[column] = None
        elif rows - index.num_rows_indexed > rows * (TEXT_TAIL if kind == _WORDS else TAIL):
            todo[column] = index.name
    return todo


def make(dataset: lance.LanceDataset, table: str, column: str, name: str | None) -> None:
    """Do one thing that `lacking` named. `dataset` is the table's newest version, and is its next one afterwards."""
    if name is not None:
        dataset.optimize.optimize_indices(index_names=[name])
        return
    kind = INDICES[table][column]
    options: dict[str, Any] = _WORD_OPTIONS if kind == _WORDS else {}
    dataset.create_scalar_index(column, kind, **options)
