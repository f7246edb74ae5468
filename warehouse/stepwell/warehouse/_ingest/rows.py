"""Linked steps, events and quarantined exchanges as Arrow rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pyarrow as pa

from stepwell.warehouse._encode.content import content_hash
from stepwell.warehouse._encode.payloads import PayloadMemory
from stepwell.warehouse._link.link import Linked
from stepwell.warehouse._parse.events import Row
from stepwell.warehouse._parse.quality import quality_of
from stepwell.warehouse._parse.said import declared_version, tags_of, token_counts
from stepwell.warehouse._tables.arrow import Array, list_array
from stepwell.warehouse._tables.schema import STEPS, TableSpec


def step_rows(linked: Sequence[Linked]) -> pa.Table:
    """Rows of `steps`. Token lists go from numpy to Arrow without a Python object per token."""
    rows = [_step_row(item) for item in linked]
    arrays: dict[str, pa.Array] = {}
    for field in STEPS.schema:
        said = [row[field.name] for row in rows] if rows and field.name in rows[0] else [None] * len(rows)
        arrays[field.name] = _column(said, field.type)
    arrays["prompt_suffix"] = _lists([item.delta.own_ids for item in linked], "prompt_suffix")
    arrays["response_ids"] = _lists([_response(item) for item in linked], "response_ids")
    arrays["logprobs"] = _lists([item.draft.logprobs for item in linked], "logprobs")
    return pa.Table.from_arrays([arrays[name] for name in STEPS.schema.names], schema=STEPS.schema)


def payload_rows(linked: Sequence[Linked], memory: PayloadMemory) -> pa.Table:
    """Rows of `payloads` that are to be there before those of `step_rows` for the same steps; `memory` knows what is."""
    return memory.rows((item.texts.payloads, item.draft.producer, item.draft.sequence) for item in linked)


def rows_of(spec: TableSpec, rows: Sequence[Row]) -> pa.Table:
    """Rows of another table, from dicts."""
    return pa.Table.from_pylist(list(rows), schema=spec.schema)


def _step_row(item: Linked) -> Row:
    draft, step, delta, texts = item.draft, item.draft.step, item.delta, item.texts
    return {
        "step_id": step.step_id,
        "call_id": item.call_id,
        "trajectory_id": item.trajectory_id,
        "prompt_id": step.prompt_id or item.facts.prompt_id,
        "group_id": step.group_id or item.facts.group_id,
        "split": step.split or item.facts.split,
        "parent_id": item.parent_id,
        "turn": item.turn,
        "conversation_key": draft.conversation_key,
        "prompt_key": draft.prompt_key,
        "base_id": delta.base_id,
        "base_depth": delta.depth,
        "prompt_length": None if draft.tokens is None else draft.prompt_length,
        "prompt_ops": None if draft.tokens is None else delta.prompt_ops,
        "messages_ops": delta.messages_ops if draft.messages else None,
        "messages_suffix": texts.messages,
        "tools": texts.tools,
        "response": texts.response,
        "payload_ids": texts.payload_ids,
        "quality": quality_of(draft.messages, draft.response),
        "drift_at": None if item.drift is None else item.drift.at,
        "drift_cause": None if item.drift is None else item.drift.cause,
        "content_hash": content_hash(
            draft.prompt_length, draft.tokens, draft.logprobs, draft.messages, draft.response, draft.tools
        ),
        "policy_version": declared_version(step.policy_version, step.policy_label, item.facts.policy_version),
        "producer": draft.producer,
        "sequence": draft.sequence,
        **{name: getattr(step, name) for name in _PLAIN},
        **token_counts(step.dialect, step.usage),
        "tags": tags_of(step.metadata),
        **{name: _json(getattr(step, name)) for name in _JSON},
        "extra": _json(_extra(item)),
        "source": step.source if draft.tokens is not None else None,
        **_trainability(item),
    }


def _trainability(item: Linked) -> Row:
    """What the step says, but for a prompt that is not whole and for ids that no engine sampled, which somebody must ask for."""
    step, reason = item.draft.step, None
    if item.incomplete is not None:
        return {"trainable": False, "untrainable_reason": item.incomplete}
    if item.draft.tokens is None:
        reason = "no token ids"
    elif item.draft.tokens.size == item.draft.prompt_length:
        reason = "no token was sampled"
    elif step.source != "engine":
        reason = f"the token ids were derived from text ({step.source}), not sampled"
    if reason is None or not step.trainable:
        return {"trainable": step.trainable, "untrainable_reason": step.untrainable_reason}
    return {"trainable": False, "untrainable_reason": reason}


def _extra(item: Linked) -> Row | None:
    """With what was found out about the conversation: how much of it the provider remembered, what the client rewrote."""
    if not item.inherited and item.changed is None:
        return item.draft.step.extra or None
    found = {"inherited_messages": item.inherited or None, "rewritten": item.changed}
    return {**(item.draft.step.extra or {}), **{name: value for name, value in found.items() if value}} or None


_PLAIN = (
    *("continues", "finish_reason", "status", "logprobs_mode", "fingerprint"),
    *("policy", "policy_label", "model", "model_asked", "response_id", "dialect", "engine"),
    *("started_at", "first_byte_at", "first_token_at", "finished_at"),
)
_JSON = ("sampling", "usage", "metadata")


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """In most columns nearly all steps of a flush say the same, or nothing."""
    if not values or values.count(values[0]) != len(values):
        return pa.array(values, kind)
    return pa.nulls(len(values), kind) if values[0] is None else pa.repeat(pa.scalar(values[0], kind), len(values))


def _json(value: object) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def _response(item: Linked) -> Array | None:
    return None if item.draft.tokens is None else item.draft.tokens[item.draft.prompt_length :]


def _lists(values: Sequence[Array | None], column: str) -> pa.Array:
    return list_array(values, STEPS.schema.field(column).type)
