"""OpenAI chat messages to canonical ones: of a request, of an answer, and of white-box submissions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from stepwell.exchange._canonical import PART_TYPES, Message, Part

_MODELLED = frozenset(
    {"role", "content", "refusal", "reasoning", "reasoning_content", "tool_calls", "function_call", "tool_call_id"}
)


def canonical_messages(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Each message in canonical form; one that is canonical already stays as it is."""
    return [canonical_message(message) for message in messages]


def canonical_message(message: Mapping[str, Any]) -> Message:
    """One chat message. Raises ValueError when it is none."""
    role = message.get("role")
    if not isinstance(role, str):
        raise ValueError("a message needs a role")
    if is_canonical(message):
        return dict(message)
    said = [*_reasoning(message), *_content(message.get("content")), *_refusal(message), *_calls(message)]
    if role in ("tool", "function"):
        said = [{"type": "tool_result", "id": message.get("tool_call_id") or message.get("name"), "content": said}]
    canonical: Message = {"role": "tool" if role == "function" else role, "content": said}
    if extra := {key: value for key, value in message.items() if key not in _MODELLED and value is not None}:
        canonical["extra"] = extra
    return canonical


def is_canonical(message: Mapping[str, Any]) -> bool:
    """Canonical content is a list of our parts; OpenAI's lists hold `image_url`, `input_audio` and the like, or plain texts."""
    content = message.get("content")
    if not isinstance(content, list) or not message.keys() <= {"role", "content", "extra"}:
        return False
    return all(isinstance(part, dict) and part.get("type") in PART_TYPES - {"file"} for part in content)


def _content(content: object) -> list[Part]:
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if isinstance(content, list):
        return [_part(part) for part in content]
    raise ValueError("a message's content is a string or a list of parts")


def _part(part: object) -> Part:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    if not isinstance(part, Mapping):
        raise ValueError("a content part is an object")
    match part.get("type"):
        case "text" if isinstance(part.get("text"), str):
            return {"type": "text", "text": part["text"], **_extra(part, {"type", "text"})}
        case "refusal":
            return {"type": "refusal", "text": part.get("refusal") or ""}
        case "image_url":
            return {"type": "image", **_extra(part, {"type"})}
        case "input_audio":
            return {"type": "audio", **_extra(part, {"type"})}
        case "file":
            return {"type": "file", **_extra(part, {"type"})}
        case _:
            return {"type": "other", **_extra(part, set())}


def _extra(part: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    extra = {key: value for key, value in part.items() if key not in known}
    return {"extra": extra} if extra else {}


def _reasoning(message: Mapping[str, Any]) -> list[Part]:
    for name in ("reasoning_content", "reasoning"):  # the same thing under two names, by server version
        if isinstance(text := message.get(name), str) and text:
            return [{"type": "reasoning", "text": text, "extra": {"name": name}}]
    return []


def _refusal(message: Mapping[str, Any]) -> list[Part]:
    text = message.get("refusal")
    return [{"type": "refusal", "text": text}] if isinstance(text, str) and text else []


def _calls(message: Mapping[str, Any]) -> list[Part]:
    calls = list(message.get("tool_calls") or ())
    if message.get("function_call"):
        calls.append({"function": message["function_call"]})
    return [_call(call) for call in calls]


def _call(call: object) -> Part:
    if not isinstance(call, Mapping):
        raise ValueError("a tool call is an object")
    function = call.get("function") or call.get("custom") or {}
    arguments = function.get("arguments", function.get("input", ""))
    part: Part = {
        "type": "tool_call",
        "id": call.get("id"),
        "name": function.get("name") or "",
        # Some compatibles send an object where the API promises text.
        "arguments": arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode(),
    }
    if call.get("type") not in (None, "function"):
        part["extra"] = {"type": call["type"]}
    return part
