"""A steered conversation, from the frames of a socket to whole prompts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from stepwell.exchange import Frame, Request, found_in_socket, request_entry, response_entry
from stepwell.warehouse import Warehouse


def test_the_successor_of_a_steered_response_has_all_that_it_saw(
    feed: Any, warehouse: Warehouse, ingest: Callable[[], int]
) -> None:
    root = {
        "object": "response",
        "model": "m",
        "instructions": "be brief",
        "tools": [{"type": "function", "name": "f"}],
    }
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "half"}]}
    ends = {"status": "incomplete", "incomplete_details": {"reason": "steered"}, "output": [item]}

    def event(kind: str, **response: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}", "response": {**root, **response}}

    asked = {"model": "m", "instructions": root["instructions"], "tools": root["tools"], "input": "go"}
    steer = {"type": "response.steer", "previous_response_id": "r1", "input": "left"}
    says: list[tuple[bool, dict[str, Any]]] = [
        (True, {"type": "response.create", **asked}),
        (False, event("created", id="r1")),
        (True, steer),
        (False, {"type": "response.steer.accepted", "steer": {"id": "s1", "previous_response_id": "r1"}}),
        (False, event("incomplete", id="r1", **ends)),
        (False, event("created", id="r2", previous_response_id="r1")),
        (False, event("completed", id="r2", previous_response_id="r1", status="completed", output=[item])),
    ]
    frames = [Frame(client, orjson.dumps(said), at) for at, (client, said) in enumerate(says, 1)]
    upgrade = Request("GET", "https://llm.example/v1/responses", [], b"", 1)
    for one in (found.exchange for found in found_in_socket(upgrade, frames)):
        feed.put(request_entry(one.id, one.request, dialect=one.dialect))
        feed.put(response_entry(one.id, one.response))
    ingest()
    columns = "step_id, parent_id, trajectory_id, messages, tools, status, untrainable_reason"
    rows = warehouse.query(f"SELECT {columns} FROM steps ORDER BY turn").to_pylist()
    first, second = rows
    prompt = [(said["role"], said["content"][0]["text"]) for said in orjson.loads(second["messages"])]
    assert prompt == [("system", "be brief"), ("user", "go"), ("assistant", "half"), ("user", "left")]
    assert (second["parent_id"], second["trajectory_id"]) == (first["step_id"], first["trajectory_id"])
    assert orjson.loads(second["tools"]) == orjson.loads(first["tools"]) == root["tools"]
    assert [row["status"] for row in rows] == ["ok", "ok"]
    assert second["untrainable_reason"] == "the engine gave no token ids"


def test_what_continues_an_incomplete_prompt_is_incomplete_too(
    feed: Any, warehouse: Warehouse, ingest: Callable[[], int]
) -> None:
    item = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]}

    def event(kind: str, **response: Any) -> dict[str, Any]:
        return {"type": f"response.{kind}", "response": {"object": "response", "model": "m", **response}}

    says: list[tuple[bool, dict[str, Any]]] = [
        (True, {"type": "response.steer", "input": "left"}),
        (True, {"type": "response.create", "model": "m", "input": "go"}),
        (False, event("created", id="r1")),
        (False, event("completed", id="r1", status="completed", output=[item])),
        (True, {"type": "response.create", "model": "m", "input": "on", "previous_response_id": "r1"}),
        (False, event("created", id="r2")),
        (False, event("completed", id="r2", status="completed", output=[item])),
    ]
    frames = [Frame(client, orjson.dumps(said), at) for at, (client, said) in enumerate(says, 1)]
    upgrade = Request("GET", "https://llm.example/v1/responses", [], b"", 1)
    for one in (found.exchange for found in found_in_socket(upgrade, frames)):
        feed.put(request_entry(one.id, one.request, dialect=one.dialect))
        feed.put(response_entry(one.id, one.response))
    ingest()
    first, second = warehouse.query("SELECT * FROM steps ORDER BY turn").to_pylist()
    assert second["parent_id"] == first["step_id"]
    assert first["untrainable_reason"].startswith("the prompt is incomplete: ")
    assert (
        second["untrainable_reason"]
        == f"the prompt is incomplete: so is that of step {first['step_id']}, which it continues"
    )
