"""Spool records to drafts, events and quarantined exchanges: what a record means, before anyone asks where it belongs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from traceback import format_tb

import orjson

from stepwell.errors import InvalidRecord
from stepwell.exchange import RESPONSE, Claim, Context, NoStep, Unparseable, claim_of, exchange_from, parse
from stepwell.exchange.canonical import Message, canonical_message, canonical_messages
from stepwell.sdk.records import Feedback, Step, Trajectory, checked
from stepwell.spool import LOST, Record
from stepwell.warehouse._parse.again import again_row, as_first
from stepwell.warehouse._parse.arrow import STEPS_RECORD, as_stream, read_rows, values_of
from stepwell.warehouse._parse.arrow_drafts import Drafts
from stepwell.warehouse._parse.draft import Draft, draft
from stepwell.warehouse._parse.events import Origin, Row, feedback_row, reward_row, trajectory_row
from stepwell.warehouse._parse.histories import Histories
from stepwell.warehouse._parse.quarantine import quarantined_row
from stepwell.warehouse._parse.raw import Raw
from stepwell.warehouse._parse.said import declared_version
from stepwell.warehouse._parse.warmed import Warmed, context_row
from stepwell.warehouse._redact.records import (
    redacted_context,
    redacted_feedback,
    redacted_quarantine,
    redacted_step,
    redacted_trajectory,
)
from stepwell.warehouse._redact.rules import RedactionFailed, Redactor
from stepwell.warehouse._tables.json_text import kept
from stepwell.warehouse._tables.table import LEDGER_KEY

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
    raw: list[Row] = field(default_factory=list)
    """Calls that were read, and are kept as they crossed the wire."""

    def add(self, other: Parsed) -> None:
        """Take over what `other` holds."""
        self.drafts.extend(other.drafts)
        self.events.extend(other.events)
        self.quarantined.extend(other.quarantined)
        self.opened.extend(other.opened)
        self.warmed.extend(other.warmed)
        self.raw.extend(other.raw)


def parse_record(
    record: Record,
    producer: str,
    request_of: Callable[[str], Record | None],
    into: Parsed,
    redactor: Redactor = _NO_RULES,
    histories: Histories | None = None,
    raw: Raw | None = None,
) -> None:
    """Add what `record` means to `into`. Nothing is raised: what cannot be read is quarantined with its bytes and the reason.

    `histories`: what earlier records said, which makes it cheap to say it again. `raw`: which calls are kept although they were read.
    """
    origin = Origin(producer, record.seq, datetime.fromtimestamp(record.at_ns / 1e9, UTC))
    request = request_of(record.ref) if record.ref is not None else None
    request = None if request is None else as_first(request)
    meant = Parsed()  # a record is taken whole or not at all
    try:
        _dispatch(record, request, origin, meant, redactor, Histories() if histories is None else histories)
        if raw is not None and request is not None and raw.wants(draft.step.status for draft in meant.drafts):
            meant.raw.append(raw.row(record, request, origin, redactor))
    except (Unparseable, InvalidRecord, orjson.JSONDecodeError, RedactionFailed) as error:
        row, failed = quarantined_row(record, request, str(error), origin), isinstance(error, RedactionFailed)
        meant = Parsed(quarantined=[redacted_quarantine(redactor, row, failed=failed)])
    except Exception as error:  # noqa: BLE001 — the boundary of parsing: a bug costs one record its step, never the others theirs
        # Without the error's words, which may repeat what a rule takes out: those are in the table, redacted.
        where = "".join(format_tb(error.__traceback__))
        _log.error("parsing record %d of %s failed: %s at\n%s", record.seq, producer, type(error).__name__, where)
        reason = f"parsing failed: {type(error).__name__}: {error}"
        row = quarantined_row(record, request, reason, origin)
        meant = Parsed(quarantined=[redacted_quarantine(redactor, row, failed=False)])
    if raw is not None:
        meant.quarantined = [raw.quarantine(row) for row in meant.quarantined]
    into.add(meant)


def _dispatch(
    record: Record, request: Record | None, origin: Origin, into: Parsed, redactor: Redactor, histories: Histories
) -> None:
    _refuse_ledger_key("id", record.id)
    match record.kind:
        case kind if kind in (RESPONSE, LOST):
            if request is None:
                raise Unparseable(f"the request {record.ref!r} that this answers is not in the spool")
            _add_exchange(request, record, origin, into, redactor, histories)
        case "step":
            _add_submitted(checked(Step, orjson.loads(record.body)), origin, into, redactor, histories)
        case kind if kind == STEPS_RECORD:
            _add_rows(record, origin, into, redactor, histories)
        case "feedback":
            feedback = checked(Feedback, orjson.loads(record.body))
            _refuse_ledger_key("feedback_id", feedback.feedback_id)
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


def _refuse_ledger_key(name: str, id_: str | None) -> None:
    if id_ == LEDGER_KEY:
        raise InvalidRecord(name, f"{LEDGER_KEY!r} is the one id that the tables keep for themselves")


def _add_exchange(
    request: Record, response: Record, origin: Origin, into: Parsed, redactor: Redactor, histories: Histories
) -> None:
    exchange = exchange_from(request, response)
    claim, again = claim_of(exchange), request.id != response.ref
    if again:
        into.events.append(again_row(request.id, claim.trajectory_id, origin))
    try:
        steps = parse(exchange)
    except NoStep as none:
        if none.context is not None:
            _add_context(redacted_context(redactor, none.context), claim, f"{exchange.id}.context", origin, into)
        return
    for step in steps:
        made = redacted_step(redactor, *_canonical(_claimed(step, claim), submitted=False))
        into.drafts.append(
            draft(
                *made,
                origin.producer,
                origin.sequence,
                submitted=False,
                again=again,
                retry=claim.retry,
                asked=request.seq,
                histories=histories,
            )
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
        messages=tuple(map(kept, context.messages)),
        tools=kept(context.tools),
        continues=context.continues,
    )
    into.warmed.append(warmed)
    into.events.append(context_row(warmed, event_id, origin))


def _add_rows(record: Record, origin: Origin, into: Parsed, redactor: Redactor, histories: Histories) -> None:
    rows = read_rows(record.body)
    drafts: Iterable[Draft | None] = [None] * rows.num_rows
    if not redactor:  # rules look at messages, of which drafts have the JSON only
        drafts = Drafts(rows, record.id, origin.producer, origin.sequence, histories)
    for row, made in enumerate(drafts):
        if made is not None:
            into.drafts.append(made)
            if made.step.reward is not None:
                into.events.append(reward_row(made.step, origin))
            continue
        try:
            _add_submitted(checked(Step, values_of(rows, row, record.id)), origin, into, redactor, histories)
        except (InvalidRecord, RedactionFailed) as error:
            bad = replace(record, id=f"{record.id}.{row}", body=as_stream(rows.slice(row, 1)))
            quarantined = quarantined_row(bad, None, f"row {row}: {error}", origin)
            if "trajectory_id" in rows.schema.names:  # that trajectory lacks it
                quarantined["trajectory_id"] = rows["trajectory_id"][row].as_py()
            into.quarantined.append(
                redacted_quarantine(redactor, quarantined, failed=isinstance(error, RedactionFailed))
            )


def _add_submitted(step: Step, origin: Origin, into: Parsed, redactor: Redactor, histories: Histories) -> None:
    made = redacted_step(redactor, *_canonical(step, submitted=True))
    into.drafts.append(draft(*made, origin.producer, origin.sequence, histories=histories))
    if step.reward is not None:
        into.events.append(reward_row(step, origin))


def _canonical(step: Step, *, submitted: bool) -> tuple[Step, list[Message] | None, Message | None]:
    """The step with its prompt and its response in canonical form, which a dialect gives and whoever submits need not."""
    _refuse_ledger_key("step_id", step.step_id)
    try:
        messages = canonical_messages(step.messages) if submitted and step.messages is not None else step.messages
        response = None if step.response is None else canonical_message({"role": "assistant", **step.response})
    except (ValueError, AttributeError, TypeError) as error:
        raise InvalidRecord("messages", f"cannot be read as chat messages: {error}") from error
    return step, messages, response
