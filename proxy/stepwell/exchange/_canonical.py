"""Canonical messages: one form for every dialect, and how two of them are compared.

A message is `{"role", "content": [part, …]}` with parts in the order in which they were said:

    {"type": "text", "text"}                     {"type": "refusal", "text"}
    {"type": "reasoning", "text", "signature"?}  {"type": "tool_call", "id", "name", "arguments"}
    {"type": "tool_result", "id", "content"}     {"type": "image" | "audio" | "file" | "other", …}

Tool arguments stay the text that the model produced. What a message carries beyond this is kept in its `extra`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

Message = dict[str, Any]
Part = dict[str, Any]


def is_part(value: object) -> bool:
    """Whether `value` is a canonical part, with what its type promises. OpenAI's parts of the same type are not."""
    if not isinstance(value, dict):
        return False
    match value.get("type"):
        case "text" | "refusal" | "reasoning":
            return isinstance(value.get("text"), str)
        case "tool_call":
            return isinstance(value.get("name"), str) and isinstance(value.get("arguments"), str)
        case "tool_result":
            return isinstance(content := value.get("content"), list) and all(
                isinstance(part, dict) and part.get("type") != "tool_result" and is_part(part) for part in content
            )
        case "file":
            return value.keys() <= {"type", "extra"}
        case "image" | "audio" | "other":
            return True
    return False


def text_of(message: Message) -> str:
    """The message's text parts, joined."""
    return "".join(part["text"] for part in message["content"] if part["type"] == "text")


def prefix_keys(messages: Iterable[Message]) -> list[bytes]:
    """For each message, 16 bytes that name the conversation up to and including it. Equal keys: the same conversation."""
    keys: list[bytes] = []
    key = b""
    for message in messages:
        key = _extended(key, message)
        keys.append(key)
    return keys


def following_key(keys: Sequence[bytes], message: Message) -> bytes:
    """The key of the conversation that `message` continues."""
    return _extended(keys[-1] if keys else b"", message)


def _extended(key: bytes, message: Message) -> bytes:
    return hashlib.blake2b(key + orjson.dumps(_compared(message)), digest_size=16).digest()


def _compared(message: Message) -> list[object]:
    """What clients leave unchanged between turns: no reasoning, no ids, no extras; neighbouring texts are one."""
    role = "system" if message["role"] == "developer" else message["role"]
    return [role, _compared_parts(message["content"])]


def _compared_parts(parts: Iterable[Part]) -> list[list[object]]:
    said: list[list[object]] = []
    texts: list[str] = []
    for part in parts:
        if part["type"] in ("text", "refusal"):
            texts.append(part["text"])
        elif part["type"] != "reasoning":
            _end_text(said, texts)
            said.append(_compared_part(part))
    _end_text(said, texts)
    return said


def _end_text(said: list[list[object]], texts: list[str]) -> None:
    if text := "".join(texts):
        said.append(["text", text])
    texts.clear()


def _compared_part(part: Part) -> list[object]:
    match part["type"]:
        case "tool_call":
            return ["tool_call", part["name"], _arguments(part["arguments"])]
        case "tool_result":
            return ["tool_result", _compared_parts(part["content"])]
        case kind:
            return [kind, orjson.dumps(_without_marks(part), option=orjson.OPT_SORT_KEYS).decode()]


def _without_marks(part: Part) -> Part:
    """Cache marks move from turn to turn while what is said stays."""
    extra = part.get("extra")
    kept = {key: value for key, value in extra.items() if key != "cache_control"} if isinstance(extra, dict) else extra
    return {**part, "extra": kept}


def _arguments(text: str) -> str:
    """Arguments by their meaning: clients re-serialise them. Text that is no JSON, or nested absurdly, stays as it is."""
    try:
        return orjson.dumps(_same_numbers(orjson.loads(text)), option=orjson.OPT_SORT_KEYS).decode()
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        return text


def _same_numbers(value: Any) -> Any:
    """JavaScript writes 1.0 and 1e2 back as 1 and 100: whole floats become integers, where that is exact."""
    if isinstance(value, dict):
        return {key: _same_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_same_numbers(inner) for inner in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value
