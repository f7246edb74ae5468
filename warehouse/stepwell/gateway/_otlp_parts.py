"""Messages of typed parts (GenAI conventions) in the form of OpenAI's chat messages."""

from __future__ import annotations

from typing import Any

import orjson

from stepwell.gateway._otlp_said import json_of, tool_call, without_none

__all__ = ["message_of", "messages_of"]


def messages_of(message: Any) -> list[dict[str, Any]]:
    """A message; results of tools become messages of their own, as OpenAI has them. Nothing for what is no message."""
    if not isinstance(message, dict):
        return []
    parts = message.get("parts")
    if not isinstance(parts, list):
        return [message_of(message, "user")]
    results = [part for part in parts if isinstance(part, dict) and part.get("type") == "tool_call_response"]
    rest = [part for part in parts if not (isinstance(part, dict) and part.get("type") == "tool_call_response")]
    found = [message_of({**message, "parts": rest}, "user")] if rest or not results else []
    return found + [_result(part) for part in results]


def message_of(message: dict[str, Any], role: str) -> dict[str, Any]:
    """One message, whose role is `role` where it does not say."""
    said = message.get("role")
    role = said if isinstance(said, str) and said else role
    parts = message.get("parts")
    if isinstance(parts, list):
        return {"role": role, **_of_parts(parts), **without_none({"name": message.get("name")})}
    calls = json_of(message.get("tool_calls"))
    result_of = message.get("tool_call_id", message.get("id") if role == "tool" else None)
    return {
        "role": role,
        "content": message.get("content"),
        **without_none({"tool_calls": calls if isinstance(calls, list) else None, "tool_call_id": result_of}),
        **without_none({name: message.get(name) for name in ("name", "reasoning_content", "refusal")}),
    }


def _of_parts(parts: list[Any]) -> dict[str, Any]:
    content: list[Any] = []
    calls: list[Any] = []
    thoughts: list[str] = []
    for part in parts:
        if not isinstance(part, dict):
            content.append({"type": "text", "text": str(part)})
            continue
        match part.get("type"):
            case "text":
                content.append({"type": "text", "text": part.get("content", part.get("text", ""))})
            case "tool_call":
                calls.append(tool_call(part.get("id"), part.get("name"), part.get("arguments")))
            case "reasoning" | "thinking":
                thoughts.append(str(part.get("content", "")))
            case _:
                content.append(_media(part))
    texts = [part["text"] for part in content if part.get("type") == "text"]
    plain = texts[0] if len(content) == len(texts) == 1 else content or None
    more = {"tool_calls": calls or None, "reasoning_content": "\n".join(thoughts) or None}
    return {"content": plain, **without_none(more)}


def _media(part: dict[str, Any]) -> dict[str, Any]:
    """Pictures as OpenAI has them; anything else as it came."""
    if part.get("modality", "image") == "image":
        if part.get("type") == "uri" and isinstance(part.get("uri"), str):
            return {"type": "image_url", "image_url": {"url": part["uri"]}}
        if part.get("type") == "blob" and isinstance(part.get("content"), str):
            url = f"data:{part.get('mime_type') or 'image/png'};base64,{part['content']}"
            return {"type": "image_url", "image_url": {"url": url}}
    return part


def _result(part: dict[str, Any]) -> dict[str, Any]:
    said = part.get("response", part.get("result"))
    content = said if isinstance(said, str) else orjson.dumps(said).decode()
    return {"role": "tool", **without_none({"tool_call_id": part.get("id")}), "content": content}
