"""Ollama's own API, chat and generate: plain, and as lines of JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import orjson

from stepwell.testing._dialect import Body, Conversation, Json, Received, Refused, Turn, count, objects
from stepwell.testing._sampling import Sample
from stepwell.testing._script import Delivery
from stepwell.testing._wire import answer_of
from stepwell.testing._words import (
    assistant,
    image_part,
    made_call,
    object_of,
    pieces_of,
    said,
    text_part,
    tool_result,
)

_REASONS = {"tool_calls": "stop"}
_LINES = "application/x-ndjson"
_NANOSECONDS = {"total_duration": 5_000_000, "load_duration": 1_000_000}


class OllamaChat:
    """`POST …/api/chat`, streamed unless it is told not to."""

    name = "ollama.chat"
    paths = ("/api/chat",)
    id_prefix = "ollama-"

    def read(self, received: Received) -> Conversation:
        body = received.body
        messages = [_message(message, place) for place, message in enumerate(objects(body, "messages", "role"))]
        return _asked(body, messages)

    def whole(self, turn: Turn) -> Body:
        sample = turn.samples[0]
        answer = answer_of(sample)
        message: Json = {"role": "assistant", "content": answer.content or ""}
        if answer.reasoning:
            message["thinking"] = answer.reasoning
        if answer.tool_calls:
            message["tool_calls"] = _calls(sample)
        return Body([orjson.dumps({**_head(turn), "message": message, **_end(turn)})])

    def stream(self, turn: Turn, delivery: Delivery) -> Body:
        return _lines(turn, delivery, lambda said: {"message": {"role": "assistant", "content": "", **said}})

    def error(self, status: int, message: str) -> Body:  # noqa: ARG002 - the status is in the response's head
        return _error(message)


class OllamaGenerate:
    """`POST …/api/generate`: one prompt, streamed unless it is told not to."""

    name = "ollama.generate"
    paths = ("/api/generate",)
    id_prefix = "ollama-"

    def read(self, received: Received) -> Conversation:
        body = received.body
        spoken = {"system": body.get("system") or "", "user": body.get("prompt") or ""}
        if not all(isinstance(text, str) for text in spoken.values()):
            raise Refused(400, "`prompt` and `system` must be texts")
        return _asked(
            body, [{"role": role, "content": text} for role, text in spoken.items() if text or role == "user"]
        )

    def whole(self, turn: Turn) -> Body:
        answer = answer_of(turn.samples[0])
        thought = {"thinking": answer.reasoning} if answer.reasoning else {}
        return Body([orjson.dumps({**_head(turn), "response": answer.content or "", **thought, **_end(turn)})])

    def stream(self, turn: Turn, delivery: Delivery) -> Body:
        return _lines(turn, delivery, _generated)

    def error(self, status: int, message: str) -> Body:  # noqa: ARG002 - the status is in the response's head
        return _error(message)


def _asked(body: Json, messages: list[Json]) -> Conversation:
    return Conversation(
        messages,
        body.get("tools") or (),
        str(body.get("model") or ""),
        body.get("stream") is not False,
        max_tokens=count(body.get("options") or {}, "num_predict"),
    )


def _message(message: Json, place: int) -> Json:
    role, content = message["role"], message.get("content") or ""
    if role == "assistant":
        thoughts = [message["thinking"]] if message.get("thinking") else []
        made = [call["function"] for call in message.get("tool_calls") or ()]
        calls = [made_call(f"call-{place}-{i}", call["name"], call.get("arguments")) for i, call in enumerate(made)]
        return assistant([content] if content else [], thoughts, calls)
    if role == "tool":
        return tool_result(message.get("tool_call_id") or message.get("tool_name"), content)
    images = [image_part(f"data:image/png;base64,{image}") for image in message.get("images") or ()]
    return said(role, [text_part(content), *images])


def _lines(turn: Turn, delivery: Delivery, shaped: Callable[[Json], Json]) -> Body:
    """A line for each piece, a call whole in one, and a last line with the reason and the counters."""
    values = [{**_head(turn), **shaped(said), "done": False} for said in _said(turn.samples[0], delivery)]
    values.append({**_head(turn), **shaped({}), **_end(turn)})
    return Body([orjson.dumps(value) + b"\n" for value in values], _LINES)


def _said(sample: Sample, delivery: Delivery) -> Iterator[Json]:
    for piece in pieces_of(sample, delivery.chunk_tokens):
        if piece.kind == "reasoning":
            yield {"thinking": piece.text}
        elif piece.kind == "content":
            yield {"content": piece.text}
    for call in _calls(sample) if sample.whole else ():
        yield {"tool_calls": [call]}


def _generated(said: Json) -> Json:
    """What generate has in place of a message: a call has no form there."""
    return {"response": said.get("content", ""), **({"thinking": said["thinking"]} if "thinking" in said else {})}


def _calls(sample: Sample) -> list[Json]:
    return [
        {"id": call.id, "function": {"index": index, "name": call.name, "arguments": object_of(call)}}
        for index, call in enumerate(sample.tool_calls)
    ]


def _head(turn: Turn) -> Json:
    return {"model": turn.model, "created_at": datetime.fromtimestamp(turn.created, UTC).isoformat()}


def _end(turn: Turn) -> Json:
    reason = turn.samples[0].finish_reason
    counted = {"prompt_eval_count": len(turn.prompt_ids), "eval_count": turn.generated}
    ended = {"done": True, "done_reason": _REASONS.get(reason, reason)}
    return {**ended, **_NANOSECONDS, **counted, "prompt_eval_duration": 2_000_000, "eval_duration": 2_000_000}


def _error(message: str) -> Body:
    return Body([orjson.dumps({"error": message})])
