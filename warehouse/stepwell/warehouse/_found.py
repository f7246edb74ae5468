"""What ingest finds out about steps that are stored already, and conversations that were no steps: events, and what they resolve to."""

from __future__ import annotations

from typing import Any

import lance
import orjson
import pyarrow as pa

from stepwell.warehouse._attempts import Finding
from stepwell.warehouse._continues import Warmed
from stepwell.warehouse._draft import Draft
from stepwell.warehouse._read import holds_data, matching
from stepwell.warehouse._rows import Origin, Row

CONTEXT = "context"
SUPERSEDED = "the client used another attempt of this call: "
"""How the reason of a step begins that is no longer trainable since another attempt was used; the view says the same."""

_KINDS = ("attempt.superseded", "attempt.used", "parent.late")


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


def with_findings(steps: pa.Table, events: lance.LanceDataset) -> pa.Table:
    """`steps` as the view `steps` shows them: late parents, and attempts that were superseded not trainable."""
    columns = {"parent_id", "trainable", "untrainable_reason"} & set(steps.column_names)
    if not columns or not holds_data(events):
        return steps
    ids = steps["step_id"].to_pylist()
    found = matching(events, "target_id", sorted(set(ids)), ["target_id", "kind", "text"])
    said: dict[str, dict[str, str]] = {kind: {} for kind in _KINDS}
    for target, kind, text in zip(*(found[name].to_pylist() for name in found.column_names), strict=True):
        if kind in said:
            said[kind][target] = text
    # A parent that was found at once is the step's own; only what was unknown then comes late.
    parents, used = said["parent.late"], said["attempt.used"]
    lost = {id_: f"{SUPERSEDED}{by}" for id_, by in said["attempt.superseded"].items() if id_ not in used}
    for name, values in (("parent_id", parents), ("untrainable_reason", lost)):
        if name in columns and values:
            steps = _replaced(steps, name, [values.get(id_, old) for id_, old in _pairs(ids, steps, name)])
    if "trainable" in columns and lost:
        steps = _replaced(steps, "trainable", [old and id_ not in lost for id_, old in _pairs(ids, steps, "trainable")])
    return steps


def _pairs(ids: list[str], steps: pa.Table, name: str) -> list[tuple[str, Any]]:
    return list(zip(ids, steps[name].to_pylist(), strict=True))


def _replaced(steps: pa.Table, name: str, values: list[Any]) -> pa.Table:
    column = pa.array(values, steps.schema.field(name).type)
    return steps.set_column(steps.column_names.index(name), steps.schema.field(name), column)
