"""A prefix tree, and what is drawn of it: its largest nodes as rectangles, the rest summed up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from stepwell.reader import Icicle, PrefixNodes

__all__ = ["Tree", "drawn"]


@dataclass(frozen=True, slots=True)
class Tree:
    """Of some steps at one version of the warehouse."""

    label: str
    at: int
    nodes: PrefixNodes
    steps: pa.Table
    """step_id, trajectory_id, turn of each row."""
    without_ids: int = 0


def drawn(tree: Tree, asked: Mapping[str, Any]) -> dict[str, Any]:
    """`asked`: node, by, budget_px, limit.

    Raises:
        InvalidRecord: a parameter; there is no such node.
    """
    from stepwell.reader import icicle

    nodes, node = tree.nodes, asked.get("node")
    found = icicle(nodes, node, by=asked["by"], pixels=asked["budget_px"], most=asked["limit"])
    path = [] if node is None else [_node(tree, above) for above in [*nodes.path(node), node]]
    return {
        "selection": tree.label,
        "at": tree.at,
        "steps": tree.steps.num_rows,
        "without_ids": tree.without_ids,
        "tokens": {"naive": nodes.naive, "merged": nodes.merged, "sampled": int(nodes.sampled.sum())},
        "saved": nodes.naive - nodes.merged,
        "nodes": len(nodes),
        "by": asked["by"],
        "node": node,
        "path": path,
        "width": found.width,
        "rows": _rows(tree, found),
        "cut": _cut(found),
    }


def _node(tree: Tree, node: int) -> dict[str, Any]:
    """A node on its own: how one got to where one looks."""
    nodes = tree.nodes
    return {"node": node, **_named(tree, [int(nodes.row[node])])[0], **_sizes(nodes, [node])[0]}


def _rows(tree: Tree, drawn: Icicle) -> list[dict[str, Any]]:
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


def _named(tree: Tree, rows: list[int]) -> list[dict[str, Any]]:
    """A step that has the node: the first that ends in its subtree."""
    found: list[dict[str, Any]] = tree.steps.select(["step_id", "trajectory_id", "turn"]).take(rows).to_pylist()
    return found
