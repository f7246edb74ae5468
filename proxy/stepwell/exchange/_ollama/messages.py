"""Ollama's messages to canonical ones and back: a text, a thought, images and tool calls, each in a field of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import orjson

from stepwell.exchange._canonical import Message, Part, text_of
from stepwell.exchange._chat.messages import call_part
from stepwell.exchange._chat.rebuild import chat_call, extra_of
from stepwell.exchange._media import media_part

_FIELDS = frozenset({"role", "content", "thinking", "images", "tool_calls"})
_NAMES = ("tool_call_id", "tool_name", "name")
"""What says which call a result is of; before Ollama 0.9 nothing did."""


def canonical_message(message: object) -> Message:
    """One message. Images come before the text, as templates put them. Raises ValueError when it is none."""
    if not isinstance(message, Mapping) or not isinstance(role := message.get("role"), str):
        raise ValueError("a message is an object with a role")
    said = [*_texts(message, "thinking"), *_images(message), *_texts(message, "content"), *_calls(message)]
    extra = {key: value for key, value in message.items() if key not in _FIELDS and value is not None}
    if role == "tool":
        id_ = next((extra[name] for name in _NAMES if isinstance(extra.get(name), str) and extra[name]), None)
        said = [{"type": "tool_result", "id": id_, "content": said}]
    canonical: Message = {"role": role, "content": said}
    return {**canonical, "extra": extra} if extra else canonical


def _texts(message: Mapping[str, Any], field: str) -> list[Part]:
    text = message.get(field)
    if not isinstance(text, str | None):
        raise ValueError(f"a message's {field} is a text")
    if not text:
        return []
    if field == "thinking":
        return [{"type": "reasoning", "text": text, "extra": {"name": "thinking"}}]
    return [{"type": "text", "text": text}]


def _images(message: Mapping[str, Any]) -> list[Part]:
    images = message.get("images") or []
    if not isinstance(images, list):
        raise ValueError("a message's images is a list")
    return [image_part(image) for image in images]


def image_part(image: object) -> Part:
    """An image, which Ollama takes as bare base64 text."""
    return media_part("image", {"data": image}, image)


def _calls(message: Mapping[str, Any]) -> list[Part]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ValueError("a message's tool_calls is a list")
    return [call_part(call) for call in calls]


def ollama_message(message: Message) -> dict[str, Any]:
    """A canonical message as Ollama has it."""
    made: dict[str, Any] = {"role": message["role"], **extra_of(message)}
    said = message["content"]
    if len(said) == 1 and said[0]["type"] == "tool_result":
        said = said[0]["content"]
    made["content"] = text_of({"content": said})
    if thinking := "".join(part["text"] for part in said if part["type"] == "reasoning"):
        made["thinking"] = thinking
    if images := [extra_of(part).get("data") for part in said if part["type"] == "image"]:
        made["images"] = images
    if calls := [ollama_call(part) for part in said if part["type"] == "tool_call"]:
        made["tool_calls"] = calls
    return made


def ollama_call(part: Part) -> dict[str, Any]:
    """A tool call with its arguments as the object that they are; text that is none stays text."""
    call = chat_call(part)
    with contextlib.suppress(KeyError, orjson.JSONDecodeError):
        call["function"] = {**call["function"], "arguments": orjson.loads(part["arguments"])}
    return {key: value for key, value in call.items() if value is not None and (key, value) != ("type", "function")}
