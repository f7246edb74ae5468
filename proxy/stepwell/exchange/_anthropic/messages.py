"""Anthropic messages to canonical ones, and a Messages request as what was asked.

A content block becomes one part, in place: tool results stay inside the user's message, reasoning keeps its signature, and a type
that nobody here has heard of is kept whole. Bedrock's `invoke` carries the same bodies and reads them with the same functions.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from typing import Any

from stepwell.exchange._body import without
from stepwell.exchange._canonical import Message, Part
from stepwell.exchange._chat.messages import argument_text
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Asked
from stepwell.exchange._media import media_part

IN_LIST = "in_messages"
"""Marks a first message of role `system` that came in the list, not in the request's `system` field."""

IN_PATH = "model_in_path"
"""Marks a request whose body names no model because its path does."""

_KEPT = frozenset(
    {
        *("metadata", "stream", "service_tier", "betas", "anthropic_beta", "anthropic_version", "diagnostics"),
        *("cache_control", "container", "mcp_servers", "thread", "inference_geo", "billing_policy"),
        *("fallback_credit_token", "user_profile_id", "workspace_id"),
    }
)
"""Request fields that say how a call is served, billed and told apart, and do not steer what is sampled."""
_NOT_SAMPLING = _KEPT | {"model", "messages", "system", "tools"}


def asked_from(body: Mapping[str, Any], model: str | None = None, added: Collection[str] = ()) -> Asked:
    """A Messages request. `model`: what its path names, where the body has none; `added`: fields that a route put in.

    Raises:
        Unparseable: it is no Messages request.
    """
    if not isinstance(messages := body.get("messages"), list):
        raise Unparseable("the request has no list of messages")
    try:
        prompt = _prompt(body.get("system"), messages)
    except ValueError as error:
        raise Unparseable(f"a message of the request cannot be read: {error}") from None
    named = body.get("model")
    extra = {key: value for key, value in body.items() if key in _KEPT and value is not None}
    return Asked(
        messages=prompt,
        tools=body.get("tools") or None,
        sampling={key: value for key, value in body.items() if key not in _NOT_SAMPLING and key not in added},
        model=named or model,
        extra={**extra, IN_PATH: True} if model and not named else extra,
    )


def _prompt(system: object, messages: list[Any]) -> list[Message]:
    said = [message_from(message) for message in messages]
    if parts := _parts(system):
        return [{"role": "system", "content": parts}, *said]
    if said and said[0]["role"] == "system":
        said[0]["extra"] = {**said[0].get("extra", {}), IN_LIST: True}
    return said


def message_from(message: object) -> Message:
    """One message of a request. Raises ValueError when it is none."""
    if not isinstance(message, dict) or not isinstance(role := message.get("role"), str):
        raise ValueError("a message is an object with a role")
    canonical: Message = {"role": role, "content": _parts(message.get("content"))}
    if extra := without(message, "role", "content"):
        canonical["extra"] = extra
    return canonical


def _parts(content: object) -> list[Part]:
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    if isinstance(content, list):
        return [part_from(block) for block in content]
    raise ValueError("content is a text or a list of blocks")


def part_from(block: object) -> Part:
    """One content block, of a request or an answer. Raises ValueError when it is none.

    A `tool_use` block whose `input` is a text keeps it as it is: the pieces of a stream, which may have been cut.
    """
    if isinstance(block, str):
        return {"type": "text", "text": block}
    if not isinstance(block, dict):
        raise ValueError("a content block is an object")
    kind = block.get("type")
    if not isinstance(kind, str):
        return {"type": "other", "extra": without(block)}
    if kind in _READERS:
        return _READERS[kind](block) or {"type": "other", "extra": without(block)}
    if kind.endswith(("_tool_use", "_tool_result")):
        return _server_tool(block, kind)
    return {"type": "other", "extra": without(block)}


def _text(block: dict[str, Any]) -> Part | None:
    text = block.get("text") or ""
    return _with_extra({"type": "text", "text": text}, block, "text") if isinstance(text, str) else None


def _thinking(block: dict[str, Any]) -> Part | None:
    text, signature = block.get("thinking") or "", block.get("signature")
    if not isinstance(text, str) or not isinstance(signature, str | None):
        return None
    signed = {} if signature is None else {"signature": signature}
    return _with_extra({"type": "reasoning", "text": text, **signed}, block, "thinking", "signature")


def _redacted(block: dict[str, Any]) -> Part | None:
    data = block.get("data")
    return _with_extra({"type": "reasoning", "text": "", "redacted": data}, block, "data") if data else None


def _tool_use(block: dict[str, Any]) -> Part | None:
    name, given = block.get("name") or "", block.get("input")
    if not isinstance(name, str):
        return None
    part = {"type": "tool_call", "id": block.get("id"), "name": name, "arguments": argument_text(given)}
    odd = () if isinstance(given, dict | str | None) else ("input",)  # what no text can stand for stays as it came
    return _with_extra(part, block, *({"id", "name", "input"} - set(odd)))


def _tool_result(block: dict[str, Any]) -> Part | None:
    content = block.get("content")
    if not isinstance(content, str | list | None):
        return None
    parts = _parts(content)
    if any(part["type"] == "tool_result" for part in parts):  # no result holds another
        return None
    return _with_extra(
        {"type": "tool_result", "id": block.get("tool_use_id"), "content": parts}, block, "tool_use_id", "content"
    )


def _image(block: dict[str, Any]) -> Part:
    return media_part("image", without(block), _data(block.get("source")))


def _file(block: dict[str, Any]) -> Part:
    return media_part("file", without(block), _data(block.get("source")))


def _data(source: object) -> str | None:
    """What a source holds, in base64; None where it is a link, the id of a file, or blocks of its own."""
    data = source.get("data") if isinstance(source, dict) else None
    if not isinstance(source, dict) or not isinstance(data, str):
        return None
    return base64.b64encode(data.encode()).decode() if source.get("type") == "text" else data


def _server_tool(block: dict[str, Any], kind: str) -> Part:
    """A call says which tool it is of; a result only by its type."""
    name = block.get("name")
    named = name if isinstance(name, str) else kind.removesuffix("_tool_result")
    return {"type": "server_tool", "name": named, "extra": without(block)}


_READERS = {
    "text": _text,
    "thinking": _thinking,
    "redacted_thinking": _redacted,
    "tool_use": _tool_use,
    "tool_result": _tool_result,
    "image": _image,
    "document": _file,
    "container_upload": _file,
}


def _with_extra(part: Part, block: dict[str, Any], *modelled: str) -> Part:
    extra = without(block, "type", *modelled)
    return {**part, "extra": extra} if extra else part
