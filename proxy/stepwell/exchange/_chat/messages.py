"""OpenAI chat messages to canonical ones: of a request, of an answer, and of white-box submissions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from stepwell.exchange._canonical import Message, Part, is_part
from stepwell.exchange._media import media_part

_REASONING = ("reasoning_content", "reasoning")
"""The same thing under two names, by server version; some say it under both."""
_OF_TEXT = frozenset({"type", "text"})
_MODELLED = frozenset({"role", "content", "tool_calls", "function_call", "tool_call_id"})


def canonical_messages(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Each message in canonical form; one that is canonical already stays as it is. Raises ValueError when one is none."""
    return [canonical_message(message) for message in messages]


def canonical_message(message: Mapping[str, Any]) -> Message:
    """One chat message. Raises ValueError when it is none."""
    if not isinstance(message, Mapping) or not isinstance(role := message.get("role"), str):
        raise ValueError("a message is an object with a role")
    if type(message.get("content")) is str and len(message) == 2 and role not in ("tool", "function"):
        return {
            "role": role,
            "content": _content(message["content"]),
        }  # as most are, and as the rest of this would make it
    if is_canonical(message):
        return {**message, "content": [_tidy(part) for part in message["content"]]}
    said = [*_reasoning(message), *_content(message.get("content")), *_refusal(message), *_calls(message)]
    extra = {key: value for key, value in message.items() if value is not None and not _is_modelled(message, key)}
    if role in ("tool", "function"):
        said = [_result(message, said)]
        extra |= {"role": role} if role == "function" else {}
    canonical: Message = {"role": "tool" if role == "function" else role, "content": said}
    return {**canonical, "extra": extra} if extra else canonical


def is_canonical(message: Mapping[str, Any]) -> bool:
    """Canonical content is a list of our parts; OpenAI's lists hold `image_url`, `input_audio` and the like, or plain texts."""
    content = message.get("content")
    if not isinstance(content, list) or not message.keys() <= {"role", "content", "extra"}:
        return False
    if message["role"] in ("tool", "function") and any(not _is_type(part, "tool_result") for part in content):
        return False
    return all(is_part(part) for part in content)


def _is_modelled(message: Mapping[str, Any], key: str) -> bool:
    """Whether a field has become parts: of another type or place than the API's, it is only kept."""
    if key in _REASONING or key == "refusal":
        return isinstance(message[key], str)
    return key in _MODELLED and (key != "tool_call_id" or message["role"] in ("tool", "function"))


def _result(message: Mapping[str, Any], said: list[Part]) -> Part:
    """What a tool gave, for the call of that id; that of a function, which has none, goes by its name."""
    if message.get("tool_call_id") or not message.get("name"):
        return {"type": "tool_result", "id": message.get("tool_call_id"), "content": said}
    return {"type": "tool_result", "id": message["name"], "content": said, "extra": {"by": "name"}}


def _tidy(part: Part) -> Part:
    """A text of OpenAI's is one of ours, but for what it carries beside it: cache marks, citations."""
    foreign = part.keys() - {"type", "text", "extra"} if part["type"] == "text" else set()
    return {"type": "text", "text": part["text"], **_extra(part, {"type", "text"})} if foreign else part


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
        case "refusal" if isinstance(part.get("refusal"), str):
            return {"type": "refusal", "text": part["refusal"], **_extra(part, {"type", "refusal"})}
        case "image_url":
            return media_part("image", _but_type(part), _inner(part.get("image_url"), "url"))
        case "input_audio":
            return media_part("audio", _but_type(part), _inner(part.get("input_audio"), "data"))
        case "file":
            return media_part("file", _but_type(part), _inner(part.get("file"), "file_data"))
        case _:
            return {"type": "other", **_extra(part, set())}


def _but_type(part: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in part.items() if key != "type"}


def _inner(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else value


def _thought(value: object) -> str | None:
    """The text of Mistral's `thinking` part, which is itself a list of text parts; None when it holds anything else."""
    texts = (
        [part.get("text") if isinstance(part, Mapping) and part.keys() <= _OF_TEXT else None for part in value]
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
    said = {name: text for name in _REASONING if (text := _text(message.get(name)))}
    if said:
        text, *others = dict.fromkeys(said.values())
        name, *also = [name for name in said if said[name] == text]
        first: Part = {"type": "reasoning", "text": text, "extra": {"name": name, **({"also": also} if also else {})}}
        rest = [name for name in said if said[name] in others]
        return [first, *({"type": "reasoning", "text": said[name], "extra": {"name": name}} for name in rest)]
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
    parts = [call_part(call) for call in calls]
    if legacy := message.get("function_call"):
        part = call_part({"function": legacy})
        parts.append({**part, "extra": {"field": "function_call", **part.get("extra", {})}})
    return parts


def call_part(call: object) -> Part:
    """One tool call; what it carries beside id, name and arguments in `extra`. Raises ValueError when it is none."""
    kind = "custom" if isinstance(call, Mapping) and call.get("custom") and not call.get("function") else "function"
    function = (call.get(kind) or {}) if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise ValueError("a tool call is an object, and so is its function")
    said = "input" if "arguments" not in function and "input" in function else "arguments"
    part: Part = {
        "type": "tool_call",
        "id": call.get("id"),
        "name": _text(function.get("name")),
        "arguments": argument_text(function.get(said)),
    }
    extra = {key: value for key, value in call.items() if key not in ("id", kind) and value is not None}
    if extra.get("type") == "function":
        del extra["type"]
    elif kind == "custom":
        extra.setdefault("type", "custom")
    if rest := {key: value for key, value in function.items() if key not in ("name", said) and value is not None}:
        extra["function"] = rest
    return {**part, "extra": extra} if extra else part


def argument_text(arguments: object) -> str:
    """Arguments as text: some compatibles send an object where the API promises text. Raises ValueError at absurd depths."""
    if isinstance(arguments, str):
        return arguments
    try:
        return "" if arguments is None else orjson.dumps(arguments).decode()
    except orjson.JSONEncodeError as error:
        raise ValueError(f"a tool call's arguments cannot be written as JSON: {error}") from None
