"""Canonical messages as chat templates take them, for trainers that render and tokenize by themselves."""

from __future__ import annotations

from typing import Any

import orjson

from stepwell.reader._parts import Part, by_results, is_result

Message = dict[str, Any]
_REASONING = "reasoning_content"
"""What chat templates call it."""


class NoChat(ValueError):
    """A message holds what a chat template cannot render; the text says what."""


def chat_messages(messages: list[Message]) -> list[Message]:
    """The messages with plain text, `tool_calls` and messages of the role `tool`. One that answers several calls becomes as many.

    Raises:
        NoChat: an image, a refusal, a tool that the provider ran, or anything else that is not text.
    """
    return [plain for message in messages for plain in _plain(message)]


def chat_message(message: Message) -> Message:
    """One answer, likewise. Raises NoChat also for what is more than one message."""
    found = _plain(message)
    if len(found) != 1:
        raise NoChat("an answer that is several messages")
    return found[0]


def has_reasoning(message: Message) -> bool:
    """Whether a message says what was thought before it. What a provider keeps to itself is not said."""
    return bool(message.get(_REASONING))


def without_reasoning(message: Message) -> Message:
    return {name: value for name, value in message.items() if name != _REASONING}


def _plain(message: Message) -> list[Message]:
    content = message.get("content")
    if not isinstance(content, list):
        return [{**message, "content": content or ""}]
    return [_result(piece[0]) if is_result(piece) else _said(message["role"], piece) for piece in by_results(content)]


def _result(part: Part) -> Message:
    return {"role": "tool", "tool_call_id": part.get("id"), "content": _text(part["content"])}


def _said(role: str, parts: list[Part]) -> Message:
    calls = [part for part in parts if part["type"] == "tool_call"]
    thoughts = "".join(part["text"] for part in parts if part["type"] == "reasoning")
    made: Message = {
        "role": role,
        "content": _text([part for part in parts if part["type"] not in ("tool_call", "reasoning")]),
    }
    if thoughts:
        made[_REASONING] = thoughts
    if calls:
        made["tool_calls"] = [_call(part) for part in calls]
    return made


def _call(part: Part) -> dict[str, Any]:
    try:
        arguments = orjson.loads(part["arguments"] or "{}")
    except orjson.JSONDecodeError as error:
        raise NoChat("a tool call whose arguments are no JSON") from error
    return {"id": part.get("id"), "type": "function", "function": {"name": part["name"], "arguments": arguments}}


def _text(parts: list[Part]) -> str:
    for part in parts:
        if part["type"] != "text":
            raise NoChat(f"a part of type {part['type']}")
    return "".join(part["text"] for part in parts)
