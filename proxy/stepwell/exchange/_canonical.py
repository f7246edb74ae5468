"""Canonical messages: one form for every dialect, and how two of them are compared.

A message is `{"role", "content": [part, …]}` with parts in the order in which they were said. Roles: `system`, `developer`, `user`,
`assistant`, `tool`.

    {"type": "text", "text"}                          {"type": "refusal", "text"}
    {"type": "reasoning", "text", "signature"?, "redacted"?}
    {"type": "tool_call", "id", "name", "arguments"}  {"type": "tool_result", "id", "content": [part, …]}
    {"type": "server_tool", "name"}                   a tool that the provider ran itself: its call, or its result
    {"type": "image" | "audio" | "file", "hash"?}     `hash`: `sha256:<hex>` of the decoded bytes, where they came along
    {"type": "other"}

Tool arguments stay the text that the model produced. What a part or a message carries beyond this is kept in its `extra`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
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
        case "server_tool":
            return isinstance(value.get("name"), str)
        case "file":
            return value.keys() <= {"type", "hash", "extra"}
        case "image" | "audio" | "other":
            return True
    return False


def text_of(message: Message) -> str:
    """The message's text parts, joined."""
    return "".join(part["text"] for part in message["content"] if part["type"] == "text")


def prefix_keys(messages: Iterable[Message]) -> list[bytes]:
    """For each message, 16 bytes that name the conversation up to and including it. Equal keys: the same conversation."""
    return chained_keys(b"", map(compared, messages))


def following_key(keys: Sequence[bytes], message: Message) -> bytes:
    """The key of the conversation that `message` continues."""
    return chained_keys(keys[-1] if keys else b"", [compared(message)])[0]


def chained_keys(key: bytes, forms: Iterable[bytes]) -> list[bytes]:
    """The keys of a conversation that goes on after the one of `key` with messages of these forms (see `compared`)."""
    keys: list[bytes] = []
    for form in forms:
        key = hashlib.blake2b(key + form, digest_size=16).digest()
        keys.append(key)
    return keys


def compared(message: Message) -> bytes:
    """What clients leave unchanged between turns: no reasoning, no ids, no extras; neighbouring texts are one.

    Two messages of equal form were the same thing said, however a client has wrapped it since.
    """
    role = "system" if message["role"] == "developer" else message["role"]
    joined, parts = _JOINED.get(role, "".join), message["content"]
    if len(parts) == 1 and parts[0]["type"] == "text":  # as most are
        text = joined([parts[0]["text"]])
        return orjson.dumps([role, [["text", text]] if text else []])
    return orjson.dumps([role, _compared_parts(parts, joined)])


def _compared_parts(parts: Iterable[Part], joined: Callable[[list[str]], str] = "".join) -> list[list[object]]:
    """`joined` makes one text of neighbouring ones, without what they carry for one request only."""
    said: list[list[object]] = []
    texts: list[str] = []
    for part in parts:
        if part["type"] in ("text", "refusal"):
            texts.append(part["text"])
        elif part["type"] != "reasoning":
            _end_text(said, texts, joined)
            said.append(_compared_part(part))
    _end_text(said, texts, joined)
    return said


def _end_text(said: list[list[object]], texts: list[str], joined: Callable[[list[str]], str]) -> None:
    if text := joined(texts):
        said.append(["text", text])
    texts.clear()


def _compared_part(part: Part) -> list[object]:
    match part["type"]:
        case "tool_call":
            return ["tool_call", part["name"], _arguments(part["arguments"])]
        case "tool_result":
            return ["tool_result", _compared_parts(part["content"], _unwrapped)]
        case "server_tool" if (id_ := _id_of(part)) is not None:
            return ["server_tool", part["name"], (part.get("extra") or {}).get("type"), id_]
        case "image" | "audio" | "file" if isinstance(digest := part.get("hash"), str):
            return [part["type"], digest]
        case kind:
            return [kind, orjson.dumps(_without_marks(part), option=orjson.OPT_SORT_KEYS).decode()]


def _id_of(part: Part) -> str | None:
    """The provider's id of a server tool's call: its result names the same one."""
    extra = part.get("extra")
    if not isinstance(extra, dict):
        return None
    ids = (extra.get(name) for name in ("id", "tool_use_id", "call_id"))
    return next((id_ for id_ in ids if isinstance(id_, str) and id_), None)


def _without_marks(part: Part) -> Part:
    """Cache marks move from turn to turn while what is said stays."""
    extra = part.get("extra")
    kept = {key: value for key, value in extra.items() if key != "cache_control"} if isinstance(extra, dict) else extra
    return {**part, "extra": kept}


_BILLING = re.compile(r"x-anthropic-billing-header:(?: *[\w.-]+=[^;\n]*(?:;|(?=\n|\Z)))*\n?")
_UNTRUSTED = re.compile(r"<untrusted_context>(?:\n|\\n)?|(?:\n|\\n)?</untrusted_context>")
_THOUGHT = re.compile(r"\s*<think>.*?</think>\s*|(?:(?!<think>).)*?\n</think>\n\s*", re.DOTALL)


def _without_billing(texts: list[str]) -> str:
    """Claude Code's first system block counts requests (`cch=…; cc_prev_req=…;`), so that no two are alike."""
    return "".join(text if (line := _BILLING.match(text)) is None else text[line.end() :] for text in texts)


def _unwrapped(texts: list[str]) -> str:
    """gemini-cli wraps the outputs of tools when it sends them again; the wrapper may stand inside a JSON text."""
    text = "".join(texts)
    return _UNTRUSTED.sub("", text) if "untrusted_context>" in text else text


def _without_thought(texts: list[str]) -> str:
    """Reasoning that an engine left in the text: clients and templates cut it off in later turns."""
    text = "".join(texts)
    thought = _THOUGHT.match(text) if "</think>" in text else None
    return text if thought is None else text[thought.end() :]


_JOINED: dict[str, Callable[[list[str]], str]] = {"system": _without_billing, "assistant": _without_thought}


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
