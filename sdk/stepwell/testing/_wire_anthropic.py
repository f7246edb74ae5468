"""Anthropic Messages: plain and as server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from stepwell.testing._dialect import Body, Conversation, Json, Received, Turn, count, objects
from stepwell.testing._sampling import Sample
from stepwell.testing._script import Delivery
from stepwell.testing._wire import answer_of
from stepwell.testing._words import (
    assistant,
    blocks_of,
    function_tool,
    image_part,
    made_call,
    object_of,
    said,
    sse,
    text_part,
    tool_result,
)

_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_SIGNATURE = "c2NyaXB0ZWQ="
_DELTAS = {
    "reasoning": ("thinking_delta", "thinking"),
    "content": ("text_delta", "text"),
    "call": ("input_json_delta", "partial_json"),
}
"""By the kind of a block: its deltas' type, and the field that holds their text."""


class AnthropicMessages:
    """`POST …/messages`."""

    name = "anthropic.messages"
    paths = ("/messages",)
    id_prefix = "msg_"

    def read(self, received: Received) -> Conversation:
        body = received.body
        return asked_from(body, str(body.get("model") or ""), stream=bool(body.get("stream")))

    def whole(self, turn: Turn) -> Body:
        return Body([orjson.dumps(message_from(turn))], headers={"request-id": f"req_{turn.id}"})

    def stream(self, turn: Turn, delivery: Delivery) -> Body:
        events = [sse(orjson.dumps(event), event["type"]) for event in events_from(turn, delivery)]
        return Body(events, "text/event-stream; charset=utf-8", {"request-id": f"req_{turn.id}"})

    def error(self, status: int, message: str) -> Body:
        kind = _ERRORS.get(status, "api_error" if status >= 500 else "invalid_request_error")
        return Body([orjson.dumps({"type": "error", "error": {"type": kind, "message": message}})])


def asked_from(body: Mapping[str, Any], model: str, *, stream: bool) -> Conversation:
    """What a request of this form asks; Bedrock's and Vertex's bodies are the same, without model and `stream`."""
    messages: list[Json] = []
    if system := body.get("system"):
        messages.append(said("system", [text_part(system)] if isinstance(system, str) else _parts(system)))
    for message in objects(body, "messages", "role"):
        messages += _messages(message)
    tools = [
        function_tool(tool.get("name"), tool.get("description"), tool.get("input_schema"))
        for tool in body.get("tools") or ()
    ]
    return Conversation(messages, tools, model, stream, max_tokens=count(body, "max_tokens"))


def _messages(message: Json) -> Iterator[Json]:
    """A message as chat has it: the results of tools are messages of their own there, and come first."""
    content = message.get("content")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content or ())
    if message["role"] == "assistant":
        yield assistant(
            [block["text"] for block in blocks if block["type"] == "text"],
            [block["thinking"] for block in blocks if block["type"] == "thinking"],
            [made_call(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"],
        )
        return
    for block in blocks:
        if block["type"] == "tool_result":
            answered = block.get("content") or ""
            yield tool_result(block["tool_use_id"], answered if isinstance(answered, str) else _parts(answered))
    if parts := _parts(blocks):
        yield said(message["role"], parts)


def _parts(blocks: Iterable[Json]) -> list[Json]:
    parts = []
    for block in blocks:
        if block.get("type") == "text":
            parts.append(text_part(block.get("text")))
        elif block.get("type") == "image":
            source = block.get("source") or {}
            parts.append(
                image_part(source.get("url") or f"data:{source.get('media_type')};base64,{source.get('data')}")
            )
    return parts


def message_from(turn: Turn) -> Json:
    """A `message` object."""
    sample = turn.samples[0]
    answer = answer_of(sample)
    content: list[Json] = []
    if answer.reasoning:
        content.append({"type": "thinking", "thinking": answer.reasoning, "signature": _SIGNATURE})
    if answer.content:
        content.append({"type": "text", "text": answer.content})
    content += [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": object_of(call)} for call in answer.tool_calls
    ]
    return {
        **_head(turn),
        "content": content,
        "stop_reason": _reason(turn),
        "usage": _usage(turn) | {"output_tokens": turn.generated},
    }


def events_from(turn: Turn, delivery: Delivery) -> Iterator[Json]:
    """The same as the events of a stream. Arguments come as the raw text, JSON or not."""
    yield {"type": "message_start", "message": {**_head(turn), "usage": {**_usage(turn), "output_tokens": 1}}}
    yield {"type": "ping"}
    sample = turn.samples[0]
    for index, (kind, number, pieces) in enumerate(blocks_of(sample, delivery.chunk_tokens)):
        yield {"type": "content_block_start", "index": index, "content_block": _opened(sample, kind, number)}
        delta, text = _DELTAS[kind]
        for piece in pieces:
            yield {"type": "content_block_delta", "index": index, "delta": {"type": delta, text: piece.text}}
        if kind == "reasoning":
            signed = {"type": "signature_delta", "signature": _SIGNATURE}
            yield {"type": "content_block_delta", "index": index, "delta": signed}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": _reason(turn), "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": turn.generated}}
    yield {"type": "message_stop"}


def _opened(sample: Sample, kind: str, number: int) -> Json:
    """A block as it begins."""
    if kind == "call":
        call = sample.tool_calls[number]
        return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
    if kind == "reasoning":
        return {"type": "thinking", "thinking": "", "signature": ""}
    return {"type": "text", "text": ""}


def _head(turn: Turn) -> Json:
    return {
        "id": turn.id,
        "type": "message",
        "role": "assistant",
        "model": turn.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def _usage(turn: Turn) -> Json:
    return {"input_tokens": len(turn.prompt_ids), "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def _reason(turn: Turn) -> str:
    reason = turn.samples[0].finish_reason
    return _REASONS.get(reason, reason)
