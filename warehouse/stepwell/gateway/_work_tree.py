"""Work of `GET /prefix-tree` and `POST /batches/prefix-tree`: the tokens of some steps as a tree. The last trees are remembered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from stepwell.errors import InvalidRecord
from stepwell.gateway._problems import Problem
from stepwell.gateway._work_batch_tree import read_batch
from stepwell.gateway._work_chosen import Chosen, check_size
from stepwell.gateway._work_reader import SELECTING
from stepwell.gateway._work_tree_drawn import Tree, drawn

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse

__all__ = ["MOST_STEPS", "MOST_TOKENS", "Trees"]

MOST_STEPS = 200_000
MOST_TOKENS = 200_000_000
"""Of all steps, each in full: 4 bytes each while the tree is made."""
_REMEMBERED = 4
_READ = ("prompt_ids", "response_ids")
_DRAWING = ("node", "by", "budget_px", "limit")
"""What is asked of a tree that is there."""


class Trees:
    """Draws trees; to look into one that was drawn lately costs no reading."""

    def __init__(self) -> None:
        self._trees: OrderedDict[Hashable, Tree] = OrderedDict()

    def selected(self, warehouse: Warehouse, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The tree of a selection.

        Raises:
            InvalidRecord: a parameter; nothing is selected that has token ids; there is no such node.
            Problem: 404 for a dataset that is not there; 422 for too many steps or tokens.
        """
        chosen = Chosen.of(warehouse, asked)
        return drawn(self._tree((chosen.where, chosen.at), lambda: _read(warehouse, chosen)), asked)

    def batch(self, warehouse: Warehouse, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The trees of the packs that a reader makes of its first optimizer step.

        Raises:
            InvalidRecord: a parameter or setting; there is nothing to train on; there is no such node.
            Problem: 404 for a dataset that is not there; 422 for too many steps or tokens.
        """
        chosen = Chosen.of(warehouse, asked)
        rest = {name: value for name, value in asked.items() if name not in (*_DRAWING, *SELECTING)}
        key = (chosen.where, chosen.at, orjson.dumps(rest, option=orjson.OPT_SORT_KEYS))
        return drawn(self._tree(key, lambda: read_batch(warehouse, asked, rest)), asked)

    def _tree(self, key: Hashable, read: Callable[[], Tree]) -> Tree:
        if key not in self._trees:
            self._trees[key] = read()
            while len(self._trees) > _REMEMBERED:
                self._trees.popitem(last=False)
        self._trees.move_to_end(key)
        return self._trees[key]


def _read(warehouse: Warehouse, chosen: Chosen) -> Tree:
    from stepwell.reader import PrefixNodes, Sequences

    count = "SELECT count(*) AS steps, count(prompt_length) AS read, sum(prompt_length + len(response_ids)) AS tokens"
    [found] = warehouse.query(f"{count} FROM steps WHERE ({chosen.where}\n)", at=chosen.at).to_pylist()
    check_size(found["steps"], MOST_STEPS)
    if not found["read"]:
        raise InvalidRecord("prompt_ids", f"{chosen.label}: {found['steps']} steps, none of which has token ids")
    if found["tokens"] > MOST_TOKENS:
        most = f"at most {MOST_TOKENS:,} are put into a tree here: select fewer steps"
        raise Problem(422, f"{found['tokens']:,} tokens are selected, and {most}", tokens=int(found["tokens"]))
    columns = "step_id, trajectory_id, group_id, coalesce(fingerprint, '') AS fingerprint"
    order = 'ORDER BY group_id, trajectory_id, "commit", producer, sequence, turn, step_id'
    steps = warehouse.query(
        f"SELECT {columns}, turn FROM steps WHERE ({chosen.where}\n) AND prompt_length IS NOT NULL {order}",
        at=chosen.at,
    )
    read = warehouse.restored(steps.select(["step_id", "trajectory_id"]), list(_READ)).read_all()
    sequences = Sequences.from_arrow(read["prompt_ids"], read["response_ids"])
    kinds = steps["fingerprint"].combine_chunks().dictionary_encode().indices.to_numpy()
    return Tree(chosen.label, chosen.at, PrefixNodes.of(sequences, kinds), steps, found["steps"] - found["read"])
