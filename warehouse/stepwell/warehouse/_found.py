"""What ingest finds out about steps that are stored already, and conversations that were no steps: events."""

from __future__ import annotations

import orjson

from stepwell.warehouse._attempts import Finding
from stepwell.warehouse._continues import Warmed
from stepwell.warehouse._draft import Draft
from stepwell.warehouse._rows import Origin, Row

CONTEXT = "context"


def finding_row(finding: Finding, draft: Draft) -> Row:
    """The event of something that the step of `draft` told about another one."""
    return {
        "event_id": finding.event_id,
        "kind": finding.kind,
        "target_kind": "step",
        "target_id": finding.step_id,
        "name": finding.kind,
        "text": finding.by,
        "created_at": draft.step.finished_at or draft.step.started_at,
        "producer": draft.producer,
        "sequence": draft.sequence,
    }


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
