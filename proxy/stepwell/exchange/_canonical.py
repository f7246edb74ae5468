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

PART_TYPES = frozenset({"text", "refusal", "reasoning", "tool_call", "tool_result", "image", "audio", "file", "other"})


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
    parts: list[list[object]] = []
    for part in message["content"]:
        said = _compared_part(part)
        if said is None:
            continue
        if parts and said[0] == "text" == parts[-1][0]:
            parts[-1] = ["text", f"{parts[-1][1]}{said[1]}"]
        else:
            parts.append(said)
    return [role, parts]


def _compared_part(part: Part) -> list[object] | None:
    match part["type"]:
        case "text" | "refusal":
            return ["text", part["text"]] if part["text"] else None
        case "reasoning":
            return None
        case "tool_call":
            return ["tool_call", part["name"], _arguments(part["arguments"])]
        case "tool_result":
            return ["tool_result", [_compared_part(inner) for inner in part["content"]]]
        case kind:
            return [kind, orjson.dumps(part, option=orjson.OPT_SORT_KEYS).decode()]


def _arguments(text: str) -> str:
    """Arguments by their meaning: clients re-serialise them. Text that is no JSON stays as it is."""
    try:
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS).decode()
    except orjson.JSONDecodeError:
        return text
