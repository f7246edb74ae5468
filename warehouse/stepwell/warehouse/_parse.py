"""Spool records to drafts, events and quarantined exchanges: what a record means, before anyone asks where it belongs."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from traceback import format_tb

import orjson

from stepwell.errors import InvalidRecord
from stepwell.exchange import RESPONSE, Claim, Context, NoStep, Unparseable, claim_of, exchange_from, parse
from stepwell.exchange.canonical import Message, canonical_message, canonical_messages
from stepwell.sdk.records import Feedback, Step, Trajectory, checked
from stepwell.spool import LOST, Record
from stepwell.warehouse._continues import Warmed
from stepwell.warehouse._draft import Draft, draft
from stepwell.warehouse._found import context_row
from stepwell.warehouse._ledger import LEDGER_KEY
from stepwell.warehouse._redact import RedactionFailed, Redactor
from stepwell.warehouse._redact_records import (
    redacted_context,
    redacted_feedback,
    redacted_quarantine,
    redacted_step,
    redacted_trajectory,
)
from stepwell.warehouse._rows import Origin, Row, feedback_row, reward_row, trajectory_row
from stepwell.warehouse._trajectories import declared_version

_log = logging.getLogger(__name__)

_NO_RULES = Redactor()


@dataclass(slots=True)
class Parsed:
    """What a number of records came to, each list in the records' order."""

    drafts: list[Draft] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    quarantined: list[Row] = field(default_factory=list)
    opened: list[Trajectory] = field(default_factory=list)
    warmed: list[Warmed] = field(default_factory=list)
    """Conversations that were no steps, and may be continued."""

    def add(self, other: Parsed) -> None:
        """Take over what `other` holds."""
        self.drafts.extend(other.drafts)
        self.events.extend(other.events)
        self.quarantined.extend(other.quarantined)
        self.opened.extend(other.opened)
        self.warmed.extend(other.warmed)


def parse_record(
    record: Record,
    producer: str,
    request_of: Callable[[str], Record | None],
    into: Parsed,
    redactor: Redactor = _NO_RULES,
) -> None:
    """Add what `record` means to `into`. Nothing is raised: what cannot be read is quarantined with its bytes and the reason."""
    origin = Origin(producer, record.seq, datetime.fromtimestamp(record.at_ns / 1e9, UTC))
    request = request_of(record.ref) if record.ref is not None else None
    meant = Parsed()  # a record is taken whole or not at all
    try:
        _dispatch(record, request, origin, meant, redactor)
    except (Unparseable, InvalidRecord, orjson.JSONDecodeError, RedactionFailed) as error:
        row, failed = _quarantined(record, request, str(error), origin), isinstance(error, RedactionFailed)
        into.quarantined.append(redacted_quarantine(redactor, row, failed=failed))
    except Exception as error:  # noqa: BLE001 — the boundary of parsing: a bug costs one record its step, never the others theirs
        # Without the error's words, which may repeat what a rule takes out: those are in the table, redacted.
        where = "".join(format_tb(error.__traceback__))
        _log.error("parsing record %d of %s failed: %s at\n%s", record.seq, producer, type(error).__name__, where)
        reason = f"parsing failed: {type(error).__name__}: {error}"
        row = _quarantined(record, request, reason, origin)
        into.quarantined.append(redacted_quarantine(redactor, row, failed=False))
    else:
        into.add(meant)


def _dispatch(record: Record, request: Record | None, origin: Origin, into: Parsed, redactor: Redactor) -> None:
    if record.id == LEDGER_KEY:
        raise InvalidRecord("id", f"{LEDGER_KEY!r} is the one id that the tables keep for themselves")
    match record.kind:
        case kind if kind in (RESPONSE, LOST):
            if request is None:
                raise Unparseable(f"the request {record.ref!r} that this answers is not in the spool")
            _add_exchange(request, record, origin, into, redactor)
        case "step":
            _add_submitted(checked(Step, orjson.loads(record.body)), origin, into, redactor)
        case "feedback":
            feedback = checked(Feedback, orjson.loads(record.body))
            if feedback.feedback_id == LEDGER_KEY:
                raise InvalidRecord("feedback_id", f"{LEDGER_KEY!r} is the one id that the tables keep for themselves")
            into.events.append(feedback_row(redacted_feedback(redactor, feedback), origin))
        case "trajectory":
            trajectory = redacted_trajectory(redactor, checked(Trajectory, orjson.loads(record.body)))
            into.events.append(trajectory_row(trajectory, record.id, origin))
            if trajectory.state == "open":
                into.opened.append(trajectory)
        case "exchange.request":
            pass  # it waits for its answer
        case kind:
            raise Unparseable(f"unknown kind of record {kind!r}: was it written by a newer version?")


def _add_exchange(request: Record, response: Record, origin: Origin, into: Parsed, redactor: Redactor) -> None:
    exchange = exchange_from(request, response)
    claim = claim_of(exchange)
    try:
        steps = parse(exchange)
    except NoStep as none:
        if none.context is not None:
            _add_context(redacted_context(redactor, none.context), claim, f"{exchange.id}.context", origin, into)
        return
    for step in steps:
        made = redacted_step(redactor, *_canonical(_claimed(step, claim), submitted=False))
        into.drafts.append(
            draft(*made, origin.producer, origin.sequence, submitted=False, retry=claim.retry, asked=request.seq)
        )


def _claimed(step: Step, claim: Claim) -> Step:
    """What the exchange says of itself, where the dialect does not say it of the step. A claim has been made to fit already."""
    said = claim.fields
    own = {name: value for name in said if name != "metadata" and (value := getattr(step, name)) is not None}
    metadata = {**said.get("metadata", {}), **(step.metadata or {})} or None
    version = declared_version(step.policy_version, step.policy_label, said.get("policy_version"))
    return step.model_copy(update={**said, **own, "metadata": metadata, "policy_version": version})


def _add_context(context: Context, claim: Claim, event_id: str, origin: Origin, into: Parsed) -> None:
    warmed = Warmed(
        response_id=context.response_id,
        trajectory_id=claim.trajectory_id,
        messages=tuple(orjson.dumps(message) for message in context.messages),
        tools=orjson.dumps(context.tools),
        continues=context.continues,
    )
    into.warmed.append(warmed)
    into.events.append(context_row(warmed, event_id, origin))


def _add_submitted(step: Step, origin: Origin, into: Parsed, redactor: Redactor) -> None:
    made = redacted_step(redactor, *_canonical(step, submitted=True))
    into.drafts.append(draft(*made, origin.producer, origin.sequence))
    if step.reward is not None:
        into.events.append(reward_row(step, origin))


def _canonical(step: Step, *, submitted: bool) -> tuple[Step, list[Message] | None, Message | None]:
    """The step with its prompt and its response in canonical form, which a dialect gives and whoever submits need not."""
    if step.step_id == LEDGER_KEY:
        raise InvalidRecord("step_id", f"{LEDGER_KEY!r} is the one id that the tables keep for themselves")
    try:
        messages = canonical_messages(step.messages) if submitted and step.messages is not None else step.messages
        response = None if step.response is None else canonical_message({"role": "assistant", **step.response})
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidRecord("messages", f"cannot be read as chat messages: {error}") from error
    return step, messages, response


def _quarantined(record: Record, request: Record | None, reason: str, origin: Origin) -> Row:
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
