"""Canonical messages back to those of Bedrock's Converse API: what `messages` took apart, put together again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from stepwell.exchange._bedrock.messages import IN_LIST
from stepwell.exchange._canonical import Message, Part


def conversation_of(messages: Sequence[Message]) -> dict[str, Any]:
    """`messages`, and `system` where the conversation begins with one."""
    if messages and messages[0]["role"] == "system" and IN_LIST not in (messages[0].get("extra") or {}):
        system = blocks_of(messages[0]["content"])
        return {"system": system, "messages": [message_of(message) for message in messages[1:]]}
    return {"messages": [message_of(message) for message in messages]}


def message_of(message: Message) -> dict[str, Any]:
    """One message as it was."""
    extra = {key: value for key, value in (message.get("extra") or {}).items() if key != IN_LIST}
    return {**extra, "role": message["role"], "content": blocks_of(message["content"])}


def blocks_of(parts: Iterable[Part]) -> list[dict[str, Any]]:
    """The blocks of parts, the cache points behind what they mark."""
    blocks: list[dict[str, Any]] = []
    for part in parts:
        extra = dict(part.get("extra") or {})
        mark = extra.get("cache_control")
        if isinstance(mark, dict) and "cachePoint" in mark:
            del extra["cache_control"]
            blocks += [_block(part, extra), mark]
        else:
            blocks.append(_block(part, extra))
    return blocks


def _block(part: Part, extra: dict[str, Any]) -> dict[str, Any]:
    match part["type"]:
        case "text" | "refusal":
            return _said(part["text"], extra)
        case "reasoning":
            return {**extra, "reasoningContent": _reasoning(part, extra.get("reasoningContent") or {})}
        case "tool_call":
            use = {"toolUseId": part.get("id"), "name": part["name"], "input": json_of(part["arguments"])}
            return {**extra, "toolUse": {**use, **(extra.get("toolUse") or {})}}
        case "tool_result":
            content = [_result(inner, dict(inner.get("extra") or {})) for inner in part["content"]]
            result = {"toolUseId": part.get("id"), "content": content}
            return {**extra, "toolResult": {**result, **(extra.get("toolResult") or {})}}
        case _:
            return extra  # kept whole


def _said(text: str, extra: dict[str, Any]) -> dict[str, Any]:
    if isinstance(guard := extra.get("guardContent"), dict):
        return {**extra, "guardContent": {**guard, "text": {"text": text, **guard.get("text", {})}}}
    if isinstance(cited := extra.get("citationsContent"), dict):
        return {**extra, "citationsContent": {"content": [{"text": text}], **cited}}
    return {**extra, "text": text}


def _result(part: Part, extra: dict[str, Any]) -> dict[str, Any]:
    if extra == {"json": True}:
        try:
            return {"json": orjson.loads(part["text"])}
        except orjson.JSONDecodeError:  # a text beside a key of that name
            pass
    return _block(part, extra)


def _reasoning(part: Part, rest: dict[str, Any]) -> dict[str, Any]:
    if "redacted" in part:
        return {"redactedContent": part["redacted"], **rest}
    signed = {"signature": part["signature"]} if "signature" in part else {}
    return {**rest, "reasoningText": {"text": part["text"], **signed, **rest.get("reasoningText", {})}}


def json_of(arguments: str) -> Any:
    """Arguments as the object that they are; what a cut or a confused model left stays text."""
    try:
        return orjson.loads(arguments) if arguments else {}
    except orjson.JSONDecodeError:
        return arguments
