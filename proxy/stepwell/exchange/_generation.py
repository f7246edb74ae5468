"""What a dialect reads out of an exchange, and the steps that become of it.

The dialects differ in words; what a step is, when it is whole and when it may be trained on is decided here, once for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stepwell.errors import InvalidRecord
from stepwell.exchange._canonical import Message
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Status, Step, checked


@dataclass(frozen=True, slots=True)
class Tokens:
    """Ids and logprobs of one choice (None: the engine gave none), and the reason, if any, not to train on them."""

    prompt_ids: list[int] | None = None
    response_ids: list[int] | None = None
    logprobs: list[float] | None = None
    problem: str | None = "the engine gave no token ids"


@dataclass(slots=True)
class Asked:
    """The request: what the policy saw, and how it was asked."""

    messages: list[Message]
    """In canonical form, the system prompt first."""
    tools: list[dict[str, Any]] | None = None
    """As they were sent."""
    sampling: dict[str, Any] = field(default_factory=dict)
    """Parameters of the generation, under the provider's names."""
    model: str | None = None
    continues: str | None = None
    """What `messages` continue, where the provider remembers it: `response:<id>` or `conversation:<id>`."""
    extra: dict[str, Any] = field(default_factory=dict)
    """The request's other fields: with them it can be rebuilt."""


@dataclass(slots=True)
class Choice:
    """One answer of possibly several."""

    message: Message
    """In canonical form."""
    index: int = 0
    finish_reason: str | None = None
    """In the provider's own word."""
    cut: bool = False
    """It ended at a limit of length."""
    failed: bool = False
    """It ended with an error of its own."""
    tokens: Tokens = Tokens()
    policy_version: int | None = None
    policy_label: str | None = None
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Answer:
    """The response. Without choices it still makes one step: a call that failed is known to have been made."""

    choices: list[Choice] = field(default_factory=list)
    model: str | None = None
    response_id: str | None = None
    usage: dict[str, Any] | None = None
    """As received."""
    terminated: bool = False
    """It ended as the protocol says a whole answer does."""
    error: Any = None
    """The error it held, whatever its status."""
    extra: dict[str, Any] = field(default_factory=dict)


def steps_of(exchange: Exchange, asked: Asked, answer: Answer) -> Sequence[Step]:
    """One step per choice.

    Raises:
        Unparseable: what was read is no valid step.
    """
    shared = {**_asked_fields(exchange, asked), **_answer_fields(exchange, answer)}
    choices = answer.choices or [Choice({"role": "assistant", "content": []})]
    return [_step(exchange, shared, asked, answer, choice) for choice in choices]


def _asked_fields(exchange: Exchange, asked: Asked) -> dict[str, Any]:
    return {
        "call_id": exchange.id,
        "trajectory_id": exchange.trajectory_id,
        "dialect": exchange.dialect,
        "engine": exchange.engine,
        "messages": asked.messages,
        "tools": asked.tools,
        "sampling": asked.sampling or None,
        "model_asked": asked.model or None,
        "policy": asked.model or None,
        "continues": asked.continues,
    }


def _answer_fields(exchange: Exchange, answer: Answer) -> dict[str, Any]:
    model, response = answer.model or None, exchange.response
    return {
        "model": model,
        "fingerprint": f"{exchange.engine or exchange.dialect.partition('.')[0]}:{model}" if model else None,
        "response_id": answer.response_id or None,
        "usage": answer.usage,
        "started_at": time_of(exchange.request.at_ns),
        "first_byte_at": time_of(response.first_byte_ns),
        "first_token_at": time_of(response.first_byte_ns),  # unless the pieces of the answer tell better
        "finished_at": time_of(response.at_ns),
    }


def _step(exchange: Exchange, shared: dict[str, Any], asked: Asked, answer: Answer, choice: Choice) -> Step:
    status, why = _status(exchange, answer, choice)
    tokens, label = choice.tokens, choice.policy_label
    mixed = f"sampled by several policy versions: {label}" if label and ".." in label else None
    reason = why or tokens.problem or mixed
    fields = {
        **shared,
        "step_id": f"{exchange.id}.{choice.index}",
        "response": choice.message,
        "finish_reason": choice.finish_reason or None,
        "status": status,
        "prompt_ids": tokens.prompt_ids,
        "response_ids": tokens.response_ids,
        "logprobs": tokens.logprobs,
        "policy_version": choice.policy_version,
        "policy_label": label,
        "trainable": reason is None,
        "untrainable_reason": reason,
        "extra": _extra(exchange, asked, answer, choice),
    }
    try:
        return checked(Step, {key: value for key, value in fields.items() if value is not None})
    except InvalidRecord as error:
        raise Unparseable(f"the exchange gives no valid step: {error}") from None


def _status(exchange: Exchange, answer: Answer, choice: Choice) -> tuple[Status, str | None]:
    """How the generation ended, and why that keeps it from training."""
    response = exchange.response
    if response.end == "aborted":
        return "aborted", response.error or "the capture ended before the answer did"
    if answer.error is not None or (response.status or 200) >= 400 or choice.failed:
        return "error", f"the upstream answered with an error (status {response.status})"
    if not (answer.terminated or choice.finish_reason) or response.truncated:
        if response.end == "client_disconnect":
            return "client_disconnect", "the client hung up before the answer ended"
        if response.status is None:
            return "error", f"no answer came: {response.error or 'the upstream failed'}"
        return "truncated", "the answer ended before its terminal event"
    if choice.cut:
        return "truncated", "the answer was cut at the length limit"
    return "ok", None


def _extra(exchange: Exchange, asked: Asked, answer: Answer, choice: Choice) -> dict[str, Any] | None:
    """What the fields of a step do not model: the request and the response can be rebuilt with it."""
    parts: Mapping[str, Any] = {
        "request": asked.extra,
        "response": answer.extra,
        "choice": choice.extra,
        "error": answer.error,
        "transfer_error": exchange.response.error,
        "http_status": exchange.response.status if exchange.response.status != 200 else None,
        "added": list(exchange.added),
    }
    return {key: value for key, value in parts.items() if value} or None


def time_of(at_ns: int | None) -> datetime | None:
    return None if not at_ns else datetime.fromtimestamp(at_ns / 1e9, UTC)
