from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stepwell.gateway._read_tree import conversations, lineage_of, tree


def steps(**parents: str | None) -> list[dict[str, Any]]:
    return [{"step_id": id_, "parent_id": parent, "call_id": None} for id_, parent in parents.items()]


TREE = steps(a=None, b="a", sub=None, c="b", c2="b", sub2="sub", late="elsewhere")


def test_roots_and_children() -> None:
    found = {node["step_id"]: (node["root_id"], node["children"]) for node in tree(TREE)}
    assert found == {
        "a": ("a", ["b"]),
        "b": ("a", ["c", "c2"]),
        "c": ("a", []),
        "c2": ("a", []),
        "sub": ("sub", ["sub2"]),
        "sub2": ("sub", []),
        "late": ("late", []),
    }
    assert conversations(tree(TREE)) == [
        {"root_id": "a", "steps": 4, "ends": ["c", "c2"]},
        {"root_id": "sub", "steps": 2, "ends": ["sub2"]},
        {"root_id": "late", "steps": 1, "ends": ["late"]},
    ]


def test_a_child_that_came_before_its_parent() -> None:
    assert [node["root_id"] for node in tree(steps(c="b", b="a", a=None))] == ["a", "a", "a"]


def test_the_place_of_one() -> None:
    peers = [{**step, "call_id": {"c": "x", "c2": "x", "b": "y"}.get(step["step_id"])} for step in TREE]
    assert lineage_of(peers[3], peers) == {
        "parent_id": "b",
        "ancestors": ["a", "b"],
        "children": [],
        "attempts": ["c2"],
    }
    assert lineage_of(peers[1], peers)["children"] == ["c", "c2"]
    assert lineage_of(peers[0], peers) == {"parent_id": None, "ancestors": [], "children": ["b"], "attempts": []}
    assert lineage_of(peers[-1], peers)["ancestors"] == ["elsewhere"]


@given(st.dictionaries(st.sampled_from("abcdef"), st.none() | st.sampled_from("abcdefg")))
def test_any_parents_have_an_end(parents: dict[str, str | None]) -> None:
    nodes = tree(steps(**parents))
    assert {node["root_id"] for node in nodes} <= parents.keys()
    assert sum(one["steps"] for one in conversations(nodes)) == len(parents)
    for node in nodes:
        assert node["step_id"] not in lineage_of(node, nodes)["ancestors"]
