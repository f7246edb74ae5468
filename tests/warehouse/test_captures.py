"""What real agents sent, recorded: each one's calls give the lineage that its own headers and histories show."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from stepwell.exchange import Request, Response, dialect_for, request_entry, response_entry
from stepwell.warehouse import Warehouse
from stepwell.warehouse._link.link import INFERRED

CAPTURES = Path(__file__).parents[3] / "shared" / "captures"
TERMINAL = ("response.completed", "response.incomplete", "response.failed")

pytestmark = pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"no recordings of agents at {CAPTURES}")

PARENTS: dict[str, list[int | None]] = {
    "claude-code": [None, 0],
    # The main agent's two turns, the sub-agent's two, and a summary that goes on from the main agent's.
    "claude-code-subagent": [None, 0, None, 2, 1],
    "codex": [None, 0],  # turns on a socket, after a warm-up
    "codex-426": [None, 0],  # the same after a refused upgrade
    "opencode": [None, None, 0],  # with a title on a small model in between
    "aider": [None, None],  # a commit message on the weak model
    "mini-swe-agent": [None, 0],
    "node-sdks": [None] * 10,
}
"""For each generation of a capture, in order, which one of them it continues."""
SESSIONS = {
    "claude-code": "claude-code:d5fab73c-ec03-585b-6d67-c232e880fa50",
    "claude-code-subagent": "claude-code:68464a1c-a966-c079-0f50-5a3f69346201",
    "codex": "codex:f34bb6a2-c8b2-46fb-2922-83dafc84e7c6",
    "codex-426": "codex:d2152a71-40ef-722c-48ef-84bcb31c76f0",
    "opencode": "opencode:ses_dd87be298ffeEReGxWDnNl1SNd",
}
"""The trajectory that the client's own words give, where it has any."""
Turn = tuple[Request, Response]


def calls_of(name: str) -> list[Turn]:
    """The generations of a capture."""
    turns = [
        turn
        for number, call in enumerate(json.loads((CAPTURES / f"{name}.json").read_bytes()))
        for turn in turns_of(call, number)
    ]
    return [turn for turn in turns if dialect_for(turn[0].method, turn[0].url.partition("llm.example")[2])]


def turns_of(call: dict[str, Any], number: int) -> list[Turn]:
    sent, got = (
        [*headers.items()] for headers in (as_object(call["request_headers"]), as_object(call["response_headers"]))
    )
    url = f"https://llm.example{call['path']}"
    if frames := call.get("websocket"):
        return [
            (
                Request("WEBSOCKET", url, sent, asked, number),
                Response(101, [("content-type", "application/x-ndjson")], answered, "complete", number),
            )
            for asked, answered in socket_turns(frames if isinstance(frames, list) else json.loads(frames))
        ]
    asked, answered = as_bytes(call["request_body"]), as_bytes(call["response_body"])
    headers = [(key, value) for key, value in sent if key.lower() != "content-encoding"]  # recorded after it was undone
    return [
        (
            Request(call["method"], url, headers, asked, number),
            Response(call["status"], got, answered, "complete", number),
        )
    ]


def socket_turns(frames: list[dict[str, Any]]) -> list[tuple[bytes, bytes]]:
    """Each request on a socket with its answer, one frame per line."""
    turns: list[tuple[bytes, list[bytes]]] = []
    for frame in frames:
        data = as_object(frame["data"])
        if frame["from_client"]:
            turns.append((orjson.dumps(data), []))
        elif turns:
            turns[-1][1].append(orjson.dumps(data))
    return [(asked, b"\n".join(answered)) for asked, answered in turns]


def as_object(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def as_bytes(value: Any) -> bytes:
    """Bodies were recorded as objects or as JSON texts; a stream is a text inside one of those."""
    if not isinstance(value, str):
        return orjson.dumps(value)
    try:
        inner = json.loads(value)
    except ValueError:
        return value.encode()
    return inner.encode() if isinstance(inner, str) else value.encode()


@pytest.fixture
def lineage(feed: Any, ingest: Callable[[], int], warehouse: Warehouse) -> Callable[..., list[dict[str, Any]]]:
    """The rows of a capture's generations, in order, `parent` being the place of the one that each continues."""

    def take(name: str, trajectory: str | None, rounds: bool) -> list[dict[str, Any]]:
        ids = []
        for number, (request, response) in enumerate(calls_of(name)):
            dialect = dialect_for(request.method, request.url.partition("llm.example")[2])
            assert dialect is not None
            feed.put(request_entry(f"x{number}", request, dialect=dialect.name, trajectory_id=trajectory))
            feed.put(response_entry(f"x{number}", response))
            ids.append(f"x{number}.0")
            if rounds:
                ingest()
        ingest()
        assert warehouse.query("SELECT reason FROM quarantine").to_pylist() == []
        found = {row["step_id"]: row for row in warehouse.query("SELECT * FROM steps").to_pylist()}
        steps = [step_id for step_id in ids if step_id in found]  # a warm-up is none
        return [found[id_] | {"parent": steps.index(p) if (p := found[id_]["parent_id"]) else None} for id_ in steps]

    return take


@pytest.mark.parametrize("rounds", [False, True], ids=["at once", "one by one"])
@pytest.mark.parametrize("name", PARENTS)
def test_lineage_is_what_headers_and_histories_show(lineage: Any, name: str, rounds: bool) -> None:
    rows = lineage(name, "run", rounds)
    assert [row["parent"] for row in rows] == PARENTS[name]
    assert {row["trajectory_id"] for row in rows} == {"run"}
    assert len({row["call_id"] for row in rows}) == len(rows), "none is a retry of another"
    assert all(row["status"] == "ok" for row in rows)


@pytest.mark.parametrize("name", PARENTS)
def test_without_credentials_the_client_names_the_trajectory(lineage: Any, name: str) -> None:
    rows = lineage(name, None, False)
    assert [row["parent"] for row in rows] == PARENTS[name]
    if name in SESSIONS:
        assert {row["trajectory_id"] for row in rows} == {SESSIONS[name]}
    else:  # one trajectory for each conversation
        assert all(row["trajectory_id"].startswith(INFERRED) for row in rows)
        assert len({row["trajectory_id"] for row in rows}) == PARENTS[name].count(None)


def test_a_sub_agent_is_known_as_one(lineage: Any) -> None:
    rows = lineage("claude-code-subagent", None, False)
    agents = [orjson.loads(row["metadata"]).get("agent_id") for row in rows]
    assert agents == [None, None, "abd945e195abd8805", "abd945e195abd8805", None]


def test_a_conversation_on_a_socket_is_whole(lineage: Any, warehouse: Warehouse) -> None:
    """Each call sends what is new only, after a warm-up that is no step."""
    lineage("codex", None, False)
    whole = warehouse.query("SELECT messages, untrainable_reason FROM steps ORDER BY turn").to_pylist()
    first, second = (orjson.loads(row["messages"]) for row in whole)
    assert second[: len(first)] == first
    assert [message["role"] for message in second[len(first) :]] == ["assistant", "tool"]
    assert not any("incomplete" in (row["untrainable_reason"] or "") for row in whole)
