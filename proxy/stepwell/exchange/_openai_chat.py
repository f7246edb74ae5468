"""OpenAI chat completions, and every server that speaks them: plain and streamed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import orjson

from stepwell.errors import InvalidRecord
from stepwell.exchange._chat_messages import canonical_message, canonical_messages
from stepwell.exchange._chat_reply import Reply, read_reply
from stepwell.exchange._chat_tokens import policy_of, tokens_of
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Status, Step, checked

_NOT_SAMPLING = frozenset({"messages", "tools", "functions", "model", "stream", "stream_options", "user", "metadata"})
_MODELLED_ROOT = frozenset({"id", "object", "model", "usage", "prompt_token_ids", "weight_versions", "weight_version"})
_MODELLED_CHOICE = frozenset(
    {
        "index",
        "message",
        "finish_reason",
        "logprobs",
        "token_ids",
        "response_token_ids",
        "prompt_token_ids",
        "weight_versions",
    }
)
_ENGINE_FLAGS: dict[str, dict[str, Any]] = {
    "vllm": {"return_token_ids": True, "logprobs": True},
    "sglang": {"return_token_ids": True, "logprobs": True},
    "llamacpp": {"logprobs": True},
}


class OpenAIChat:
    """`POST …/chat/completions`."""

    name = "openai.chat"

    def matches(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/chat/completions")

    def flags(self, engine: str, body: Mapping[str, Any]) -> dict[str, Any]:
        if engine == "sglang" and body.get("stream"):
            return {}  # SGLang refuses these fields on a streamed call
        wanted = _ENGINE_FLAGS.get(engine, {})
        return {key: value for key, value in wanted.items() if body.get(key) != value}

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        asked = _request(exchange.request.body)
        reply = read_reply(exchange.response)
        shared = {**_asked_fields(exchange, asked), **_root_fields(exchange, reply.root)}
        if not reply.choices:
            return [_step(exchange, shared, reply, {"index": 0, "message": {}})]
        return [_step(exchange, shared, reply, reply.choices[index]) for index in sorted(reply.choices)]


def _request(body: bytes) -> dict[str, Any]:
    try:
        asked = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise Unparseable(f"the request is no JSON: {error}") from None
    if not isinstance(asked, dict) or not isinstance(asked.get("messages"), list):
        raise Unparseable("the request has no list of messages")
    return asked


def _asked_fields(exchange: Exchange, asked: dict[str, Any]) -> dict[str, Any]:
    added = set(exchange.added)
    sampling = {key: value for key, value in asked.items() if key not in _NOT_SAMPLING | added}
    try:
        messages = canonical_messages(asked["messages"])
    except ValueError as error:
        raise Unparseable(f"a message of the request cannot be read: {error}") from None
    return {
        "call_id": exchange.id,
        "trajectory_id": exchange.trajectory_id,
        "dialect": exchange.dialect,
        "engine": exchange.engine,
        "messages": messages,
        "tools": asked.get("tools") or asked.get("functions"),
        "sampling": sampling or None,
        "model_asked": asked.get("model") or None,
        "policy": asked.get("model") or None,
    }


def _root_fields(exchange: Exchange, root: dict[str, Any]) -> dict[str, Any]:
    model = root.get("model") or None
    response = exchange.response
    return {
        "model": model,
        "fingerprint": f"{exchange.engine or 'openai'}:{model}" if model else None,
        "response_id": root.get("id") or None,
        "usage": root.get("usage"),
        "started_at": _time(exchange.request.at_ns),
        "first_token_at": _time(response.first_byte_ns),
        "finished_at": _time(response.at_ns),
    }


def _step(exchange: Exchange, shared: dict[str, Any], reply: Reply, choice: dict[str, Any]) -> Step:
    status, why = _status(exchange, reply, choice)
    tokens = tokens_of(reply.root, choice, _completion_tokens(reply))
    version, label = policy_of(reply.root, choice)
    reason = (
        why or tokens.problem or (f"sampled by several policy versions: {label}" if label and ".." in label else None)
    )
    fields = {
        **shared,
        "step_id": f"{exchange.id}.{choice['index']}",
        "response": _response(choice),
        "finish_reason": choice.get("finish_reason") or None,
        "status": status,
        "prompt_ids": tokens.prompt_ids,
        "response_ids": tokens.response_ids,
        "logprobs": tokens.logprobs,
        "policy_version": version,
        "policy_label": label,
        "trainable": reason is None,
        "untrainable_reason": reason,
        "extra": _extra(exchange, reply, choice),
    }
    try:
        return checked(Step, {key: value for key, value in fields.items() if value is not None})
    except InvalidRecord as error:
        raise Unparseable(f"the exchange gives no valid step: {error}") from None


def _status(exchange: Exchange, reply: Reply, choice: Mapping[str, Any]) -> tuple[Status, str | None]:
    """How the generation ended, and why that keeps it from training."""
    response = exchange.response
    if response.end == "aborted":
        return "aborted", response.error or "the capture ended before the answer did"
    if reply.error is not None or (response.status or 200) >= 400 or _failed(choice):
        return "error", f"the upstream answered with an error (status {response.status})"
    if not (reply.terminated or choice.get("finish_reason")) or response.truncated:
        if response.end == "client_disconnect":
            return "client_disconnect", "the client hung up before the answer ended"
        if response.status is None:
            return "error", f"no answer came: {response.error or 'the upstream failed'}"
        return "truncated", "the answer ended before its terminal event"
    if choice.get("finish_reason") == "length":
        return "truncated", "the answer was cut at the length limit"
    return "ok", None


def _failed(choice: Mapping[str, Any]) -> bool:
    """OpenRouter tells of an upstream's failure inside the choice."""
    return choice.get("finish_reason") == "error" or bool(choice.get("error"))


def _response(choice: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return canonical_message({**choice["message"], "role": choice["message"].get("role") or "assistant"})
    except ValueError as error:
        raise Unparseable(f"the answer's message cannot be read: {error}") from None


def _completion_tokens(reply: Reply) -> int | None:
    """Usage counts all choices together: only of a single one is the number its own."""
    usage = reply.root.get("usage")
    if len(reply.choices) != 1 or not isinstance(usage, Mapping):
        return None
    tokens = usage.get("completion_tokens")
    return tokens if type(tokens) is int else None


def _extra(exchange: Exchange, reply: Reply, choice: Mapping[str, Any]) -> dict[str, Any] | None:
    parts = {
        "response": {key: value for key, value in reply.root.items() if key not in _MODELLED_ROOT},
        "choice": {key: value for key, value in choice.items() if key not in _MODELLED_CHOICE and value is not None},
        "error": reply.error,
        "transfer_error": exchange.response.error,
        "http_status": exchange.response.status if exchange.response.status != 200 else None,
        "added": list(exchange.added),
    }
    return {key: value for key, value in parts.items() if value} or None


def _time(at_ns: int | None) -> datetime | None:
    return None if at_ns is None else datetime.fromtimestamp(at_ns / 1e9, UTC)
