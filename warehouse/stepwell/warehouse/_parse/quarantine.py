"""What could not be parsed, as a row of `exchanges`: its bytes, the reason, and whose it was, as far as that can be read."""

from __future__ import annotations

import orjson

from stepwell.exchange import claim_of, exchange_from
from stepwell.spool import Record
from stepwell.warehouse._parse.events import Origin, Row


def quarantined_row(record: Record, request: Record | None, reason: str, origin: Origin) -> Row:
    """`request`: what `record` answers, if it is an answer."""
    head = _head(request)
    return {
        "exchange_id": request.id if request is not None else record.id,
        "reason": reason,
        "dialect": _text(head.get("dialect")) or record.kind,
        "trajectory_id": _text(head.get("trajectory_id")) or _claimed_trajectory(request, record),
        "request_head": request.head.decode(errors="replace") if request is not None else None,
        "request_body": request.body if request is not None else None,
        "response_head": record.head.decode(errors="replace") or None,
        "response_body": record.body,
        "created_at": origin.at,
        **origin.columns,
    }


def _claimed_trajectory(request: Record | None, response: Record) -> str | None:
    """Whose call it was by its own words, as far as they can be read: that trajectory lacks it."""
    if request is None:
        return None
    try:
        return claim_of(exchange_from(request, response)).trajectory_id
    except (ValueError, KeyError, TypeError, AttributeError):  # a damaged head
        return None


def _head(request: Record | None) -> dict[str, object]:
    """The request's head, as far as it can be read: a damaged one is among the reasons for being here."""
    if request is None:
        return {}
    try:
        head = orjson.loads(request.head)
    except orjson.JSONDecodeError:
        return {}
    return head if isinstance(head, dict) else {}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
