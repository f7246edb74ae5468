"""Steps back into the bodies of Anthropic's Messages API, as far as meaning goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from stepwell.exchange._anthropic.messages import IN_LIST, IN_PATH
from stepwell.exchange._canonical import Message, Part
from stepwell.sdk.records import Step

Block = dict[str, Any]


def request_from(step: Step) -> dict[str, Any]:
    """The request's body. A text that was sent plain comes back as one text block, and nulls are left out."""
    messages = list(step.messages or [])
    kept = dict((step.extra or {}).get("request") or {})
    body: dict[str, Any] = {} if kept.pop(IN_PATH, False) or not step.model_asked else {"model": step.model_asked}
    if messages and messages[0]["role"] == "system" and not (messages[0].get("extra") or {}).get(IN_LIST):
        body["system"] = _blocks(messages.pop(0)["content"])
    body["messages"] = [_message(message) for message in messages]
    if step.tools:
        body["tools"] = step.tools
    return {**body, **(step.sampling or {}), **kept}


def body_from(steps: Sequence[Step]) -> dict[str, Any]:
    """The answer's body in its plain form; of a call that failed, its error, beside what had come before."""
    step = steps[0]
    extra = step.extra or {}
    error = extra.get("error")
    said = (step.response or {}).get("content") or []
    rest = {**(extra.get("response") or {}), **(extra.get("choice") or {})}
    if error is not None and not said and step.response_id is None:
        return {"type": "error", "error": error, **rest}
    body = {
        "id": step.response_id,
        "type": "message",
        "role": "assistant",
        "model": step.model,
        "content": _blocks(said),
        "stop_reason": step.finish_reason,
        "usage": step.usage,
        "error": error,
    }
    return {**{key: value for key, value in body.items() if value is not None}, **rest}


def _message(message: Message) -> dict[str, Any]:
    extra = {key: value for key, value in (message.get("extra") or {}).items() if key != IN_LIST}
    return {"role": message["role"], "content": _blocks(message["content"]), **extra}


def _blocks(parts: Sequence[Part]) -> list[Block]:
    return [_block(part, part.get("extra") or {}) for part in parts]


def _block(part: Part, extra: Mapping[str, Any]) -> Block:
    match part["type"]:
        case "text" | "refusal":
            return {"type": "text", "text": part["text"], **extra}
        case "reasoning" if "redacted" in part:
            return {"type": "redacted_thinking", "data": part["redacted"], **extra}
        case "reasoning":
            signed = {"signature": part["signature"]} if "signature" in part else {}
            return {"type": "thinking", "thinking": part["text"], **signed, **extra}
        case "tool_call":
            call = {"type": "tool_use", "id": part["id"], "name": part["name"], "input": _input(part["arguments"])}
            return {**{key: value for key, value in call.items() if value is not None}, **extra}
        case "tool_result":
            return {
                "type": "tool_result",
                "tool_use_id": part["id"],
                "content": _blocks(part["content"]),
                **extra,
            }
    return dict(extra)


def _input(arguments: str) -> Any:
    """The object that the text stands for; the text itself where it stands for none; None where there is none."""
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments or None
    return value if isinstance(value, dict) else arguments
