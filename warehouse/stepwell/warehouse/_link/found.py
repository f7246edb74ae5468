"""What ingest finds out about steps that are stored already: events."""

from __future__ import annotations

from stepwell.warehouse._link.attempts import Finding
from stepwell.warehouse._parse.draft import Draft
from stepwell.warehouse._parse.events import Row


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
