"""Linked steps, events and quarantined exchanges as Arrow rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa

from stepwell.sdk.records import Feedback, Step, Trajectory
from stepwell.warehouse._arrow import Array, list_array
from stepwell.warehouse._content import content_hash
from stepwell.warehouse._link import Linked
from stepwell.warehouse._schema import STEPS, TableSpec
from stepwell.warehouse._trajectories import declared_version

Row = dict[str, Any]


def step_rows(linked: Sequence[Linked], commit: int) -> pa.Table:
    """Rows of `steps`. Token lists go from numpy to Arrow without a Python object per token."""
    columns: dict[str, list[Any]] = {
        name: [] for name in STEPS.schema.names if name not in ("prompt_suffix", "response_ids", "logprobs")
    }
    for item in linked:
        row = _step_row(item, commit)
        for name, values in columns.items():
            values.append(row.get(name))
    arrays = {name: pa.array(values, STEPS.schema.field(name).type) for name, values in columns.items()}
    arrays["prompt_suffix"] = _lists([_suffix(item) for item in linked], "prompt_suffix")
    arrays["response_ids"] = _lists([_response(item) for item in linked], "response_ids")
    arrays["logprobs"] = _lists([item.draft.logprobs for item in linked], "logprobs")
    return pa.Table.from_arrays([arrays[name] for name in STEPS.schema.names], schema=STEPS.schema)


def rows_of(spec: TableSpec, rows: Sequence[Row], commit: int) -> pa.Table:
    """Rows of another table, from dicts."""
    return pa.Table.from_pylist([{**row, "commit": commit} for row in rows], schema=spec.schema)


def _step_row(item: Linked, commit: int) -> Row:
    draft, step, delta = item.draft, item.draft.step, item.delta
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
        "prompt_shared": delta.prompt_shared,
        "messages_shared": delta.messages_shared,
        "messages_suffix": _json_list(draft.messages[delta.messages_shared :]) if draft.messages else None,
        "tools": delta.tools.decode() if delta.tools is not None else None,
        "response": draft.response.decode() or None,
        "content_hash": content_hash(
            draft.prompt_length, draft.tokens, draft.logprobs, draft.messages, draft.response, draft.tools
        ),
        "policy_version": declared_version(step.policy_version, step.policy_label, item.facts.policy_version),
        "producer": draft.producer,
        "sequence": draft.sequence,
        "commit": commit,
        **{name: getattr(step, name) for name in _PLAIN},
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
    found = {"inherited_messages": item.inherited or None, "rewritten": item.changed}
    return {**(item.draft.step.extra or {}), **{name: value for name, value in found.items() if value}} or None


_PLAIN = (
    *("continues", "finish_reason", "status", "logprobs_mode", "fingerprint"),
    *("policy", "policy_label", "model", "model_asked", "response_id", "dialect", "engine"),
    *("started_at", "first_byte_at", "first_token_at", "finished_at"),
)
_JSON = ("sampling", "usage", "metadata")


def _json(value: object) -> str | None:
    return None if value is None else orjson.dumps(value).decode()


def _json_list(parts: Sequence[bytes]) -> str:
    return (b"[" + b",".join(parts) + b"]").decode()


def _suffix(item: Linked) -> Array | None:
    draft = item.draft
    return None if draft.tokens is None else draft.tokens[item.delta.prompt_shared : draft.prompt_length]


def _response(item: Linked) -> Array | None:
    return None if item.draft.tokens is None else item.draft.tokens[item.draft.prompt_length :]


def _lists(values: Sequence[Array | None], column: str) -> pa.Array:
    return list_array(values, STEPS.schema.field(column).type)


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a row comes from: the spool record."""

    producer: str
    sequence: int
    at: datetime

    @property
    def columns(self) -> Row:
        return {"producer": self.producer, "sequence": self.sequence}


def feedback_row(feedback: Feedback, origin: Origin) -> Row:
    """A row of `events`. `value` is the number said (reward, score, rating), `text` the label, comment or rejected step."""
    target_kind, target_id = feedback.target
    numbers = (feedback.reward, feedback.score, feedback.rating)
    texts = (feedback.label, feedback.rejected_id, feedback.comment)
    payload = feedback.model_dump(include={"scale", "correction", "comment", "metadata"}, exclude_none=True)
    return {
        "event_id": feedback.feedback_id,
        "kind": feedback.kind,
        "target_kind": target_kind,
        "target_id": target_id,
        "name": feedback.name or feedback.kind,
        "author": feedback.author,
        "value": next((number for number in numbers if number is not None), None),
        "text": next((text for text in texts if text is not None), None),
        "payload": _json(payload or None),
        "created_at": feedback.at or origin.at,
        **origin.columns,
    }


def trajectory_row(trajectory: Trajectory, event_id: str, origin: Origin) -> Row:
    """A row of `events`: a trajectory was opened, completed, or failed."""
    payload = trajectory.model_dump(exclude={"trajectory_id", "state", "at"}, exclude_none=True)
    return {
        "event_id": event_id,
        "kind": f"trajectory.{trajectory.state}",
        "target_kind": "trajectory",
        "target_id": trajectory.trajectory_id,
        "name": "state",
        "text": trajectory.reason,
        "payload": _json(payload),
        "created_at": trajectory.at or origin.at,
        **origin.columns,
    }


def reward_row(step: Step, origin: Origin) -> Row:
    """The event of a reward that came with its step."""
    # Not validated again: the longest step id, with more after it, is no id that anybody may send.
    said = Feedback.model_construct(feedback_id=f"{step.step_id}.reward", step_id=step.step_id, reward=step.reward)
    return feedback_row(said, origin)
