"""Spool records to drafts, events and quarantined exchanges: what a record means, before anyone asks where it belongs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import orjson

from stepwell.errors import InvalidRecord
from stepwell.exchange import RESPONSE, Unparseable, exchange_from, parse
from stepwell.exchange.canonical import canonical_message, canonical_messages
from stepwell.sdk.records import Feedback, Step, Trajectory, checked
from stepwell.spool import LOST, Record
from stepwell.warehouse._draft import Draft, draft
from stepwell.warehouse._ledger import LEDGER_KEY
from stepwell.warehouse._rows import Origin, Row, feedback_row, reward_row, trajectory_row

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Parsed:
    """What a number of records came to, each list in the records' order."""

    drafts: list[Draft] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    quarantined: list[Row] = field(default_factory=list)
    opened: list[Trajectory] = field(default_factory=list)

    def add(self, other: Parsed) -> None:
        """Take over what `other` holds."""
        self.drafts.extend(other.drafts)
        self.events.extend(other.events)
        self.quarantined.extend(other.quarantined)
        self.opened.extend(other.opened)


def parse_record(record: Record, producer: str, request_of: Callable[[str], Record | None], into: Parsed) -> None:
    """Add what `record` means to `into`. Nothing is raised: what cannot be read is quarantined with its bytes and the reason."""
    origin = Origin(producer, record.seq, datetime.fromtimestamp(record.at_ns / 1e9, UTC))
    request = request_of(record.ref) if record.ref is not None else None
    meant = Parsed()  # a record is taken whole or not at all
    try:
        _dispatch(record, request, origin, meant)
    except (Unparseable, InvalidRecord, orjson.JSONDecodeError) as error:
        into.quarantined.append(_quarantined(record, request, str(error), origin))
    except Exception as error:  # noqa: BLE001 — the boundary of parsing: a bug costs one record its step, never the others theirs
        _log.exception("parsing record %d of %s failed", record.seq, producer)
        reason = f"parsing failed: {type(error).__name__}: {error}"
        into.quarantined.append(_quarantined(record, request, reason, origin))
    else:
        into.add(meant)


def _dispatch(record: Record, request: Record | None, origin: Origin, into: Parsed) -> None:
    if record.id == LEDGER_KEY:
        raise InvalidRecord("id", f"{LEDGER_KEY!r} is the one id that the tables keep for themselves")
    match record.kind:
        case kind if kind in (RESPONSE, LOST):
            if request is None:
                raise Unparseable(f"the request {record.ref!r} that this answers is not in the spool")
            for step in parse(exchange_from(request, record)):
                _add_step(step, origin, into, submitted=False)
        case "step":
            _add_step(checked(Step, orjson.loads(record.body)), origin, into, submitted=True)
        case "feedback":
            feedback = checked(Feedback, orjson.loads(record.body))
            if feedback.feedback_id == LEDGER_KEY:
                raise InvalidRecord("feedback_id", f"{LEDGER_KEY!r} is the one id that the tables keep for themselves")
            into.events.append(feedback_row(feedback, origin))
        case "trajectory":
            trajectory = checked(Trajectory, orjson.loads(record.body))
            into.events.append(trajectory_row(trajectory, record.id, origin))
            if trajectory.state == "open":
                into.opened.append(trajectory)
        case "exchange.request":
            pass  # it waits for its answer
        case kind:
            raise Unparseable(f"unknown kind of record {kind!r}: was it written by a newer version?")


def _add_step(step: Step, origin: Origin, into: Parsed, *, submitted: bool) -> None:
    if step.step_id == LEDGER_KEY:
        raise InvalidRecord("step_id", f"{LEDGER_KEY!r} is the one id that the tables keep for themselves")
    try:
        # A dialect gives canonical messages; what is submitted has either form.
        messages = canonical_messages(step.messages) if submitted and step.messages is not None else step.messages
        response = None if step.response is None else canonical_message({"role": "assistant", **step.response})
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidRecord("messages", f"cannot be read as chat messages: {error}") from error
    into.drafts.append(draft(step, messages, response, origin.producer, origin.sequence, submitted=submitted))
    if step.reward is not None:
        into.events.append(reward_row(step, origin))


def _quarantined(record: Record, request: Record | None, reason: str, origin: Origin) -> Row:
    head = _head(request)
    return {
        "exchange_id": request.id if request is not None else record.id,
        "reason": reason,
        "dialect": _text(head.get("dialect")) or record.kind,
        "trajectory_id": _text(head.get("trajectory_id")),
        "request_head": request.head.decode(errors="replace") if request is not None else None,
        "request_body": request.body if request is not None else None,
        "response_head": record.head.decode(errors="replace") or None,
        "response_body": record.body,
        "created_at": origin.at,
        **origin.columns,
    }


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
