"""Calls that could not be read and are read once more, by a later version: they come in again under the id that they had.

Their request's head names that id under `again`, since the record's own must be a new one. A step of it that is there already is left
out, and an event says that the call was read, so that it is not in quarantine any more and its trajectory does not lack it.
"""

from __future__ import annotations

from dataclasses import replace

import orjson

from stepwell.spool import Record
from stepwell.warehouse._parse.events import Origin, Row

AGAIN = "again"
READ = "call.read"


def as_first(request: Record) -> Record:
    """The request under the id of the call that it is once more, and without that word; one that is new as it is."""
    if b'"again"' not in request.head:
        return request
    try:
        head = orjson.loads(request.head)
    except orjson.JSONDecodeError:
        return request
    said = head.pop(AGAIN, None) if isinstance(head, dict) else None
    return replace(request, id=said, head=orjson.dumps(head)) if isinstance(said, str) and said else request


def again_row(exchange_id: str, trajectory_id: str | None, origin: Origin) -> Row:
    """The event that a call was read after all, about its trajectory or else its first step, which it names in any case."""
    step = f"{exchange_id}.0"
    target = ("step", step) if trajectory_id is None else ("trajectory", trajectory_id)
    return {
        "event_id": f"{exchange_id}.read",
        "kind": READ,
        "target_kind": target[0],
        "target_id": target[1],
        "name": READ,
        "text": step,
        "created_at": origin.at,
        **origin.columns,
    }
