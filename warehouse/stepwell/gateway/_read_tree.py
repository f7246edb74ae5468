"""The tree that the steps of a trajectory make. Nothing is asked here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["conversations", "lineage_of", "tree"]

Step = Mapping[str, Any]


def tree(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """The steps as they are, with the root of each and the ids of its children."""
    root, children = _roots(steps), _children(steps)
    return [{**step, "root_id": root[step["step_id"]], "children": children.get(step["step_id"], [])} for step in steps]


def conversations(nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The roots of a tree, in their order: the agent's conversation, its sub-agents', and those that began anew.

    `ends` are the steps that nothing goes on from: several where there are branches or retries.
    """
    found: dict[str, dict[str, Any]] = {}
    for node in nodes:
        one = found.setdefault(node["root_id"], {"root_id": node["root_id"], "steps": 0, "ends": []})
        one["steps"] += 1
        if not node["children"]:
            one["ends"].append(node["step_id"])
    return list(found.values())


def lineage_of(step: Step, peers: Sequence[Step]) -> dict[str, Any]:
    """Where a step stands among those of its trajectory: from its root to its parent, its children, other attempts of its call."""
    parents = {one["step_id"]: one["parent_id"] for one in peers}
    ancestors: list[str] = []
    at = step["parent_id"]
    while at is not None and at not in ancestors and at != step["step_id"]:
        ancestors.append(at)
        at = parents.get(at)
    call = step["call_id"]
    return {
        "parent_id": step["parent_id"],
        "ancestors": ancestors[::-1],
        "children": _children(peers).get(step["step_id"], []),
        "attempts": [
            one["step_id"]
            for one in peers
            if call is not None and one["call_id"] == call and one["step_id"] != step["step_id"]
        ],
    }


def _children(steps: Iterable[Step]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for step in steps:
        if step["parent_id"] is not None:
            found.setdefault(step["parent_id"], []).append(step["step_id"])
    return found


def _roots(steps: Iterable[Step]) -> dict[str, str]:
    """The first step of each one's conversation, as far as it is among these."""
    parents: dict[str, str | None] = {step["step_id"]: step["parent_id"] for step in steps}
    found: dict[str, str] = {}
    for step_id in parents:
        path: dict[str, None] = {}
        at = step_id
        while at not in found and at not in path:  # no step is its own ancestor, but this must end for any
            path[at] = None
            parent = parents[at]
            if parent is None or parent not in parents:
                break
            at = parent
        found |= dict.fromkeys(path, found.get(at, at))
    return found
