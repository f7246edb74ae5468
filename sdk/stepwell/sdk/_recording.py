"""Exchanges: the answer that a caller hands in, and the calls of a wrapped client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stepwell.errors import InvalidRecord
from stepwell.sdk._answers import recognised, request_for
from stepwell.sdk._calls import Call, exchange
from stepwell.sdk._fields import now, step_fields
from stepwell.sdk._fork import undivided
from stepwell.sdk._item import Item
from stepwell.sdk._wrap import Asking

if TYPE_CHECKING:
    from collections.abc import Callable

    from stepwell.sdk.records import Trajectory

__all__ = ["ANSWER", "answer_item", "begun"]

ANSWER = "openai_response"
_WITH_IT = frozenset(
    {"call_id", "step_id", "trajectory_id", "group_id", "prompt_id", "split", "policy_version", "metadata", "reward"}
    | {"messages", "tools", "sampling", "started_at", "finished_at"}
)
_MAX_ID = 240
"""Of an exchange: the ids of its steps and of its two halves are longer, and have to be valid, too."""
_JSON = [("content-type", "application/json")]


def answer_item(given: Mapping[str, Any], block: Trajectory | None) -> tuple[Item, float | None]:
    """The exchange of a provider's answer with the messages that it answers, and the reward given with it. Raises InvalidRecord."""
    dialect, answer = recognised(given[ANSWER])
    fields = step_fields({name: value for name, value in given.items() if name != ANSWER and value is not None}, block)
    for name in fields:
        if name not in _WITH_IT:
            raise InvalidRecord(name, f"is read from {ANSWER}: leave one of them out")
    id = _exchange_id(fields)
    url, request = request_for(
        dialect, answer, fields.pop("messages", None), fields.get("tools"), fields.get("sampling") or {}
    )
    with undivided:
        from stepwell.sdk.records import Step, checked

        # What is said beside the answer is checked as that of any step; the answer itself, when it is parsed.
        try:
            step = checked(Step, {**fields, "messages": [request], "response": answer})
        except InvalidRecord as error:
            raise InvalidRecord(ANSWER if error.field == "response" else error.field, error.reason) from None
    head = {
        "status": 200,
        "response_headers": _JSON,
        "end": "complete",
        "error": None,
        "started_ns": _ns(step.started_at),
        "first_byte_ns": None,
        "finished_ns": _ns(step.finished_at or now()),
    }
    item = exchange(id, dialect, url, _JSON, _json(request), _json(answer), dict(step), head)
    return item, step.reward


def begun(request: Asking, block: Trajectory | None, done: Callable[[Item | str], None]) -> Call:
    """A call of a wrapped client, to be followed to its end."""
    url, headers, body = request
    return Call(url, headers, body, step_fields({}, block), done)


def _exchange_id(fields: Mapping[str, Any]) -> str | None:
    step_id, call_id = fields.get("step_id"), fields.get("call_id")
    if step_id is not None:
        if call_id is not None or not isinstance(step_id, str) or not step_id.endswith(".0"):
            raise InvalidRecord("step_id", f"with {ANSWER}, a step is called <call_id>.<choice>: give call_id= instead")
        call_id = step_id.removesuffix(".0")
    if call_id is not None and not (isinstance(call_id, str) and 0 < len(call_id) <= _MAX_ID):
        raise InvalidRecord("call_id", f"is no text of 1 to {_MAX_ID} characters")
    return call_id


def _ns(at: datetime | None) -> int:
    return 0 if at is None else int(at.timestamp() * 1e9)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
