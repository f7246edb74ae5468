"""The parts of the view that draw nothing, each asked in the browser: lines of trees, packed tokens, their rows, images of any provider."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.dashboard.visit import Visit


@pytest.fixture
def ask(visit: Visit) -> Any:
    """Run an expression with a module of the view as `m`."""
    visit.go(signed=False)

    def run(module: str, expression: str, argument: Any = None) -> Any:
        return visit.page.evaluate(
            f"async (a) => {{ const m = await import('/assets/js/views/trajectories/{module}.js'); return {expression}; }}",
            argument,
        )

    return run


def _grown(number: int, roots: int, seed: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """A made-up trajectory as the gateway tells one: so many steps below so many roots, in the order in which they were committed."""
    dice = random.Random(seed)
    nodes: list[dict[str, Any]] = []
    for index in range(number):
        parent: dict[str, Any] | None = None if index < roots else dice.choice(nodes[-6:])
        node: dict[str, Any] = {
            "step_id": f"s{index}",
            "parent_id": parent and parent["step_id"],
            "call_id": None,
            "response_id": None,
            "children": [],
        }
        node["root_id"] = node["step_id"] if parent is None else parent["root_id"]
        if parent is not None:
            parent["children"].append(node["step_id"])
        nodes.append(node)
    ends = [{"root_id": f"s{index}", "steps": 0, "ends": []} for index in range(roots)]
    return nodes, ends


@pytest.mark.parametrize(("number", "roots"), [(1, 1), (40, 1), (1_000, 7)])
def test_every_step_has_its_row_below_its_parent_and_no_two_lines_lie_on_each_other(
    ask: Any, number: int, roots: int
) -> None:
    nodes, conversations = _grown(number, roots, seed=number)
    late = [nodes[-1], *nodes[:-1]]  # a step whose parent came late
    drawn = ask("lanes", "m.laid(a.nodes, a.conversations)", {"nodes": late, "conversations": conversations})
    rows = {row["key"]: index for index, row in enumerate(drawn["rows"]) if "node" in row}
    assert sorted(rows) == sorted(node["step_id"] for node in nodes)
    assert all(rows[node["parent_id"]] < rows[node["step_id"]] for node in nodes if node["parent_id"] is not None)
    taken = [
        (chain["lane"], row)
        for chain in drawn["chains"]
        for row in range(chain["start"] + (chain["from"] is not None), chain["end"] + 1)
    ]
    assert len(taken) == len(set(taken))
    assert drawn["lanes"] == max(chain["lane"] for chain in drawn["chains"]) + 1
    assert len(drawn["rows"]) - len(rows) == (roots if roots > 1 else 0)


def test_attempts_and_branches_are_told_apart(ask: Any) -> None:
    def node(
        step: str, parent: str | None, call: str | None, response: str | None, children: list[str]
    ) -> dict[str, Any]:
        return {
            "step_id": step,
            "parent_id": parent,
            "root_id": "r",
            "call_id": call,
            "response_id": response,
            "children": children,
        }

    nodes = [
        node("r", None, "c0", "x0", ["a", "b", "c"]),
        *(node(step, "r", "c1", "x1", []) for step in ("a", "b")),
        node("c", "r", "c2", "x2", []),
    ]
    said = ask("lanes", "m.laid(a, [{root_id: 'r', steps: 4, ends: []}]).rows.map((row) => row.place)", nodes)
    assert said == [
        {},
        {"attempt": "choice 1/2", "branch": "branch 1/2"},
        {"attempt": "choice 2/2", "branch": "branch 1/2"},
        {"branch": "branch 2/2"},
    ]


HEAD = {
    "length": 6,
    "prompt_length": 4,
    "response_length": 2,
    "mask": [[4, 6]],
    "sampled": [{"from": 1, "to": 3, "step_id": "s"}],
}
PIECES = [
    {
        **HEAD,
        "from": 0,
        "to": 5,
        "prompt_ids": [1, 2, 3, 4],
        "response_ids": [5],
        "logprobs": [-0.5],
        "texts": ["a", "", "bc", "d\n", "é"],
    },
    {**HEAD, "from": 5, "to": 6, "prompt_ids": [], "response_ids": [6], "logprobs": [-1.5], "texts": ["🙂"]},
]
MADE = """const { Tokens } = await import('/assets/js/views/trajectories/tokens/packed.js');
    const tokens = new Tokens(a[0]);
    a.forEach((piece) => tokens.put(piece));
    tokens.closed();"""
PACK = f"""(async () => {{ {MADE}
    const each = (of) => [0, 1, 2, 3, 4, 5].map(of);
    return {{
        ids: [...tokens.ids], texts: each((at) => tokens.textOf(at)), logprobs: each((at) => tokens.logprobOf(at)),
        loss: each((at) => tokens.trained(at)), by: each((at) => tokens.samplerOf(at)), between: tokens.textBetween(2, 6),
        packed: [tokens.ids, tokens.logprobs, tokens.ends].every(ArrayBuffer.isView),
    }}; }})()"""


def test_tokens_come_in_pieces_and_are_packed(ask: Any) -> None:
    said = ask("tokens/packed", PACK, PIECES)
    assert said["ids"] == [1, 2, 3, 4, 5, 6] and said["packed"] is True
    assert said["texts"] == ["a", "", "bc", "d\n", "é", "🙂"] and said["between"] == "bcd\né🙂"
    assert said["logprobs"][4:] == [-0.5, -1.5] and all(one != one for one in said["logprobs"][:4])
    assert said["loss"] == [False] * 4 + [True] * 2
    assert said["by"] == [None, "s", "s", None, None, None]


ROWS = f"""(async () => {{ {MADE}
    const rows = m.layout(tokens, {{ids: false, width: 40, letter: 10, spare: 5}});
    return {{starts: [...rows.starts], answer: rows.answer, of: [0, 2, 3, 4, 5].map((at) => m.rowOf(rows, at))}}; }})()"""


def test_rows_are_filled_to_their_width_and_end_at_line_ends(ask: Any) -> None:
    # boxes of 15 (a), 15 (∅), 25 (bc) | 25 (d↵) | the answer's heading | 15 (é), 25 (🙂)
    said = ask("tokens/layout", ROWS, PIECES)
    assert said["starts"] == [0, 0, 2, 3, 4, 4, 6]
    assert said["answer"] == 4 and said["of"] == [1, 2, 3, 5, 5]


@pytest.mark.parametrize(
    ("extra", "found"),
    [
        ({"image_url": {"url": "data:image/png;base64,aGk="}}, {"kind": "image/png", "data": "aGk="}),
        ({"type": "input_image", "image_url": "data:image/webp;base64,aGk="}, {"kind": "image/webp", "data": "aGk="}),
        (
            {"source": {"type": "base64", "media_type": "image/jpeg", "data": "aGk="}},
            {"kind": "image/jpeg", "data": "aGk="},
        ),
        ({"inlineData": {"mimeType": "image/gif", "data": "a-_="}}, {"kind": "image/gif", "data": "a+/="}),
        ({"image_url": {"url": "https://example.com/x.png"}}, {"url": "https://example.com/x.png"}),
        ({"image_url": {"url": "data:image/svg+xml;base64,aGk="}}, {"url": "data:image/svg+xml;base64,aGk="}),
        ({"source": {"media_type": "text/html", "data": "aGk="}}, None),
        (None, None),
    ],
)
def test_images_are_found_in_every_providers_form_and_nothing_else_is_one(ask: Any, extra: Any, found: Any) -> None:
    assert ask("../../lib/parts", "m.imageOf(a)", extra) == found
