"""OpenAI chat messages to canonical ones: of a request, of an answer, and of white-box submissions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from stepwell.exchange._canonical import Message, Part, is_part

_MODELLED = frozenset(
    {"role", "content", "refusal", "reasoning", "reasoning_content", "tool_calls", "function_call", "tool_call_id"}
)


def canonical_messages(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Each message in canonical form; one that is canonical already stays as it is. Raises ValueError when one is none."""
    return [canonical_message(message) for message in messages]


def canonical_message(message: Mapping[str, Any]) -> Message:
    """One chat message. Raises ValueError when it is none."""
    if not isinstance(message, Mapping) or not isinstance(role := message.get("role"), str):
        raise ValueError("a message is an object with a role")
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
    if message["role"] in ("tool", "function") and any(not _is_type(part, "tool_result") for part in content):
        return False
    return all(is_part(part) for part in content)


def _is_type(part: object, kind: str) -> bool:
    return isinstance(part, Mapping) and part.get("type") == kind


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
        case "thinking" if (text := _thought(part.get("thinking"))) is not None:
            return {"type": "reasoning", "text": text, **_extra(part, {"type", "thinking"})}
        case "refusal":
            return {"type": "refusal", "text": _text(part.get("refusal"))}
        case "image_url":
            return {"type": "image", **_extra(part, {"type"})}
        case "input_audio":
            return {"type": "audio", **_extra(part, {"type"})}
        case "file":
            return {"type": "file", **_extra(part, {"type"})}
        case _:
            return {"type": "other", **_extra(part, set())}


def _thought(value: object) -> str | None:
    """The text of Mistral's `thinking` part, which is itself a list of text parts; None when it holds anything else."""
    texts = (
        [part.get("text") if isinstance(part, Mapping) else None for part in value]
        if isinstance(value, list)
        else [value]
    )
    return "".join(map(str, texts)) if all(isinstance(text, str) for text in texts) else None


def _extra(part: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    extra = {key: value for key, value in part.items() if key not in known}
    return {"extra": extra} if extra else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _reasoning(message: Mapping[str, Any]) -> list[Part]:
    for name in ("reasoning_content", "reasoning"):  # the same thing under two names, by server version
        if text := _text(message.get(name)):
            return [{"type": "reasoning", "text": text, "extra": {"name": name}}]
    details = message.get("reasoning_details")  # OpenRouter's form, mostly beside `reasoning`
    if not isinstance(details, list):
        return []
    texts = [
        _text(detail.get("text")) or _text(detail.get("summary")) for detail in details if isinstance(detail, Mapping)
    ]
    text = "".join(texts)
    return [{"type": "reasoning", "text": text, "extra": {"name": "reasoning_details"}}] if text else []


def _refusal(message: Mapping[str, Any]) -> list[Part]:
    text = _text(message.get("refusal"))
    return [{"type": "refusal", "text": text}] if text else []


def _calls(message: Mapping[str, Any]) -> list[Part]:
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise ValueError("a message's tool_calls is a list")
    legacy = [{"function": message["function_call"]}] if message.get("function_call") else []
    return [_call(call) for call in (*calls, *legacy)]


def _call(call: object) -> Part:
    function = (call.get("function") or call.get("custom") or {}) if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise ValueError("a tool call is an object, and so is its function")
    part: Part = {
        "type": "tool_call",
        "id": call.get("id"),
        "name": _text(function.get("name")),
        "arguments": argument_text(function.get("arguments", function.get("input"))),
    }
    if call.get("type") not in (None, "function"):
        part["extra"] = {"type": call["type"]}
    return part


def argument_text(arguments: object) -> str:
    """Arguments as text: some compatibles send an object where the API promises text. Raises ValueError at absurd depths."""
    if isinstance(arguments, str):
        return arguments
    try:
        return "" if arguments is None else orjson.dumps(arguments).decode()
    except orjson.JSONEncodeError as error:
        raise ValueError(f"a tool call's arguments cannot be written as JSON: {error}") from None
