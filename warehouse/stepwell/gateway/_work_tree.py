"""Work of `GET /prefix-tree`: the tokens of some steps as a tree, of which the largest nodes are drawn. The last trees are remembered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwell.errors import InvalidRecord
from stepwell.gateway._problems import Problem
from stepwell.gateway._work_chosen import Chosen, check_size

if TYPE_CHECKING:
    import pyarrow as pa

    from stepwell.reader import Icicle, PrefixNodes
    from stepwell.warehouse import Warehouse

__all__ = ["MOST_STEPS", "MOST_TOKENS", "Trees"]

MOST_STEPS = 200_000
MOST_TOKENS = 200_000_000
"""Of all steps, each in full: 4 bytes each while the tree is made."""
_REMEMBERED = 4
_READ = ("prompt_ids", "response_ids")


@dataclass(frozen=True, slots=True)
class _Tree:
    nodes: PrefixNodes
    steps: pa.Table
    """step_id, trajectory_id, group_id of each row."""
    without_ids: int


class Trees:
    """Draws trees; to look into one that was drawn lately costs no reading."""

    def __init__(self) -> None:
        self._trees: OrderedDict[tuple[str, int], _Tree] = OrderedDict()

    def answer(self, warehouse: Warehouse, asked: Mapping[str, Any]) -> dict[str, Any]:
        """
        Raises:
            InvalidRecord: a parameter; nothing is selected that has token ids; there is no such node.
            Problem: 404 for a dataset that is not there; 422 for too many steps or tokens.
        """
        from stepwell.reader import icicle

        chosen = Chosen.of(warehouse, asked)
        tree = self._tree(warehouse, chosen)
        nodes, node = tree.nodes, asked.get("node")
        drawn = icicle(nodes, node, by=asked["by"], pixels=asked["budget_px"], most=asked["limit"])
        path = [] if node is None else [_node(tree, above) for above in [*nodes.path(node), node]]
        saved = nodes.naive - nodes.merged
        return {
            "selection": chosen.label,
            "at": chosen.at,
            "steps": tree.steps.num_rows,
            "without_ids": tree.without_ids,
            "tokens": {"naive": nodes.naive, "merged": nodes.merged, "sampled": int(nodes.sampled.sum())},
            "saved": saved,
            "nodes": len(nodes),
            "by": asked["by"],
            "node": node,
            "path": path,
            "width": drawn.width,
            "rows": _rows(tree, drawn),
            "cut": _cut(drawn),
        }

    def _tree(self, warehouse: Warehouse, chosen: Chosen) -> _Tree:
        key = (chosen.where, chosen.at)
        if key not in self._trees:
            self._trees[key] = _read(warehouse, chosen)
            while len(self._trees) > _REMEMBERED:
                self._trees.popitem(last=False)
        self._trees.move_to_end(key)
        return self._trees[key]


def _read(warehouse: Warehouse, chosen: Chosen) -> _Tree:
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
    return _Tree(PrefixNodes.of(sequences, kinds), steps, found["steps"] - found["read"])


def _node(tree: _Tree, node: int) -> dict[str, Any]:
    """A node on its own: how one got to where one looks."""
    nodes = tree.nodes
    return {"node": node, **_named(tree, [int(nodes.row[node])])[0], **_sizes(nodes, [node])[0]}


def _rows(tree: _Tree, drawn: Icicle) -> list[dict[str, Any]]:
    nodes, shown = tree.nodes, drawn.node.tolist()
    above = 0 if not shown else int(nodes.level[drawn.node].min())
    places = {
        "node": shown,
        "parent": nodes.parent[drawn.node].tolist(),
        "x0": drawn.x0.tolist(),
        "x1": drawn.x1.tolist(),
        "depth": (nodes.level[drawn.node] - above).tolist(),
    }
    cut = [dict(zip(_CUT, some, strict=True)) if any(some) else None for some in drawn.cut.tolist()]
    names, sizes = _named(tree, nodes.row[drawn.node].tolist()), _sizes(nodes, shown)
    columns = zip(*places.values(), strict=True)
    return [
        {**dict(zip(places, place, strict=True)), **size, **name, "cut": rest}
        for place, size, name, rest in zip(columns, sizes, names, cut, strict=True)
    ]


_CUT = ("width", "nodes", "tokens", "saved", "steps")


def _cut(drawn: Icicle) -> dict[str, int]:
    """All that is hidden, whether below a rectangle or beside all of them."""
    return dict(zip(_CUT, (drawn.cut.sum(0) + drawn.beside).tolist(), strict=True))


def _sizes(nodes: PrefixNodes, some: list[int]) -> list[dict[str, int]]:
    """Of each node its own tokens and savings, and the savings of its whole subtree."""
    own = nodes.tokens[some] * (nodes.steps[some] - 1)
    below = nodes.saved_before[nodes.end[some]] - nodes.saved_before[some]
    columns = {
        "position": nodes.position[some],
        "tokens": nodes.tokens[some],
        "sampled": nodes.sampled[some],
        "steps": nodes.steps[some],
        "ended": nodes.ended[some],
        "saved": own,
        "subtree_tokens": nodes.stop[some] - nodes.start[some],
        "subtree_saved": below,
    }
    rows = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _named(tree: _Tree, rows: list[int]) -> list[dict[str, Any]]:
    """A step that has the node: the first that ends in its subtree."""
    found: list[dict[str, Any]] = tree.steps.select(["step_id", "trajectory_id", "turn"]).take(rows).to_pylist()
    return found
