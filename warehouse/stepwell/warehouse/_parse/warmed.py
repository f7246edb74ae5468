"""Conversations that a provider remembers under the id of a response that was no step, as events."""

from __future__ import annotations

from dataclasses import dataclass

import orjson

from stepwell.warehouse._parse.events import Origin, Row

CONTEXT = "context"


@dataclass(frozen=True, slots=True)
class Warmed:
    """A conversation that is remembered under the id of a response that was no step."""

    response_id: str
    trajectory_id: str | None
    messages: tuple[bytes, ...]
    tools: bytes
    continues: str | None


def context_row(warmed: Warmed, event_id: str, origin: Origin) -> Row:
    """The event of a conversation that a provider remembers under the id of a response that was no step."""
    said = b",".join(warmed.messages).decode()
    rest = orjson.dumps({"continues": warmed.continues, "trajectory_id": warmed.trajectory_id}).decode()
    return {
        "event_id": event_id,
        "kind": CONTEXT,
        "target_kind": "response",
        "target_id": warmed.response_id,
        "name": CONTEXT,
        "payload": f'{{"messages":[{said}],"tools":{warmed.tools.decode()},{rest[1:]}',
        "created_at": origin.at,
        **origin.columns,
    }


def warmed_from(response_id: str, payload: str) -> Warmed:
    """What `context_row` was made from."""
    said = orjson.loads(payload)
    messages = tuple(orjson.dumps(message) for message in said["messages"])
    tools = orjson.dumps(said["tools"])
    return Warmed(response_id, said["trajectory_id"], messages, tools, said["continues"])
