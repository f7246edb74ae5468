"""How Gemini spells its messages: protocol buffers as JSON, so names in either case and enums by name or by number.

Servers write `finishReason`, clients also `finish_reason`; both mean the same field, and a null means that it is absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_UNDERSCORE = re.compile(r"(?<=[a-z0-9])_([a-z0-9])")

_COMMON_REASONS = ("", "STOP", "MAX_TOKENS", "SAFETY", "RECITATION", "OTHER")
_GEMINI_REASONS = (
    *_COMMON_REASONS,
    "LANGUAGE",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "IMAGE_SAFETY",
    "UNEXPECTED_TOOL_CALL",
)
"""`google.ai.generativelanguage` Candidate.FinishReason by number."""
_VERTEX_REASONS = (
    *_COMMON_REASONS,
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "MALFORMED_FUNCTION_CALL",
    "MODEL_ARMOR",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_OTHER",
    "UNEXPECTED_TOOL_CALL",
    "NO_IMAGE",
)
"""`google.cloud.aiplatform` Candidate.FinishReason by number: from 6 on not the same."""
_BLOCK_REASONS = ("", "SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT")
"""PromptFeedback.BlockReason, as far as both APIs number it alike."""
_UNSPECIFIED = frozenset({"", "FINISH_REASON_UNSPECIFIED", "BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED"})
"""The value of an enum that says nothing: the protocol's default, "unused"."""


def camel(name: str) -> str:
    """A field's name as the API's reference writes it."""
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name) if "_" in name else name


def spelled(value: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a message that are not null, under their camelCase names; a field said in both keeps the second spelling."""
    fields: dict[str, Any] = {}
    for key, kept in value.items():
        if kept is None:
            continue
        if "_" in key:
            name = camel(key)
            fields[key if name != key and value.get(name) is not None else name] = kept
        else:
            fields[key] = kept
    return fields


def finish_reason(value: object, *, vertex: bool) -> str | None:
    """Why a candidate ended, by its name; None while it has not. A number that has no name yet is its digits."""
    return _named(value, _VERTEX_REASONS if vertex else _GEMINI_REASONS)


def block_reason(value: object) -> str | None:
    """Why a prompt was blocked, by its name; None when it was not."""
    return _named(value, _BLOCK_REASONS)


def _named(value: object, names: tuple[str, ...]) -> str | None:
    if type(value) is int:
        value = names[value] if 0 <= value < len(names) else str(value)
    return value if isinstance(value, str) and value not in _UNSPECIFIED else None


def number(value: object) -> int | None:
    """An integer; those of 64 bits are written as strings."""
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value, re.ASCII):
        return int(value)
    return value if type(value) is int else None
