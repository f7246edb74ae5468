"""What the text of a step shows about its quality, for whoever selects steps without reading them.

Length, drift and the reasons for which a provider ended an answer are columns anyhow; what only the messages say is found here, once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

TOOL_ERROR: Final = "tool_error"
REFUSAL: Final = "refusal"

_FLAGS = (b'"is_error"', b'"isError"', b'"status"', b'"error', b'\\"error')
_ANSWER = b'{"role":"assistant",'
"""How nearly every answer begins."""


def quality_of(messages: Sequence[bytes], response: bytes) -> list[str] | None:
    """`tool_error` and `refusal`, as far as they hold; None for neither. Messages and response are canonical, as JSON.

    `tool_error`: among the messages since the last answer a tool result says that it is an error: Anthropic's and MCP's `is_error`,
    Bedrock's status `error`, an `error` in Gemini's response. `refusal`: the response has a part of that type.
    """
    found = [TOOL_ERROR] if _tool_failed(messages) else []
    if b'"refusal"' in response and any(part.get("type") == REFUSAL for part in _parts(orjson.loads(response))):
        found.append(REFUSAL)
    return found or None


def _tool_failed(messages: Sequence[bytes]) -> bool:
    for message in reversed(messages):
        if message.startswith(_ANSWER) or (
            b'"assistant"' in message and orjson.loads(message).get("role") == "assistant"
        ):
            return False
        if b'"tool_result"' in message and any(flag in message for flag in _FLAGS) and _has_error(message):
            return True
    return False


def _has_error(message: bytes) -> bool:
    return any(part.get("type") == "tool_result" and _is_error(part) for part in _parts(orjson.loads(message)))


def _is_error(part: Mapping[str, Any]) -> bool:
    extra = part.get("extra")
    if not isinstance(extra, dict):
        return False
    for said in (extra, *(value for value in extra.values() if isinstance(value, dict))):
        if said.get("is_error") is True or said.get("isError") is True or said.get("status") == "error":
            return True
    return "functionResponse" in extra and any(map(_gemini_error, part.get("content") or ()))


def _gemini_error(inner: Any) -> bool:
    """Gemini has no flag: by its reference a function that failed answers with an object that has `error`."""
    text = inner.get("text") if isinstance(inner, dict) else None
    try:
        value = orjson.loads(text) if isinstance(text, str) else None
    except orjson.JSONDecodeError:
        return False
    return isinstance(value, dict) and bool(value.get("error"))


def _parts(message: Any) -> list[dict[str, Any]]:
    content = message.get("content") if isinstance(message, dict) else None
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
