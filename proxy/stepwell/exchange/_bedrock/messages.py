"""Messages of Bedrock's Converse API to canonical ones; Nova's own protocol has the same.

A block is an object with one key that names its kind. What a part does not model of it is in the part's `extra`: other keys of the
block under their names, the rest of the kind's own fields under the kind's name. A cache point is a mark on what stands before it,
and moves from turn to turn: it is kept there, as `cache_control`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import orjson

from stepwell.exchange._canonical import Message, Part
from stepwell.exchange._chat.messages import argument_text
from stepwell.exchange._media import media_part

Block = Mapping[str, Any]
IN_LIST = "in_messages"
"""Marks a first message of the role system that was not sent as `system`."""

OWN_TYPES = (None, "tool_use", "tool_result")
"""Types of tool calls and results that the client's own tools have."""


def messages_from(system: object, messages: object) -> list[Message]:
    """The conversation, the system prompt first. Raises ValueError when it is none."""
    if not isinstance(messages, list):
        raise ValueError("messages is a list")
    said = [message_from(message) for message in messages]
    if system:
        return [{"role": "system", "content": parts_from(system, "system")}, *said]
    if said and said[0]["role"] == "system":
        said[0]["extra"] = {**said[0].get("extra", {}), IN_LIST: True}
    return said


def message_from(message: object) -> Message:
    """One message. Raises ValueError when it is none."""
    if not isinstance(message, Mapping) or not isinstance(role := message.get("role"), str):
        raise ValueError("a message is an object with a role")
    canonical: Message = {"role": role, "content": parts_from(message.get("content"), role)}
    if extra := {key: value for key, value in message.items() if key not in ("role", "content") and value is not None}:
        canonical["extra"] = extra
    return canonical


def parts_from(content: object, role: str) -> list[Part]:
    """The parts of one message's blocks, in their order. Raises ValueError when the content is none."""
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list) or not all(isinstance(block, Mapping) for block in content):
        raise ValueError("a message's content is a list of blocks")
    names = dict(_tool_names(content))
    parts: list[Part] = []
    for block in content:
        if _is_mark(block) and parts and "cache_control" not in parts[-1].get("extra", {}):
            parts[-1]["extra"] = {**parts[-1].get("extra", {}), "cache_control": dict(block)}
        else:
            parts.append(_part(block, role, names))
    return parts


def _is_mark(block: Block) -> bool:
    return block.keys() == {"cachePoint"}


def _tool_names(content: Iterable[Block]) -> Iterable[tuple[str, str]]:
    for block in content:
        use = block.get("toolUse")
        if isinstance(use, Mapping) and isinstance(use.get("toolUseId"), str) and isinstance(use.get("name"), str):
            yield use["toolUseId"], use["name"]


def _part(block: Block, role: str, names: Mapping[str, str]) -> Part:
    for kind, value in block.items():
        if kind == "toolResult" and isinstance(value, Mapping):
            part = _tool_result(value, role, names, block)
        elif kind == "text" and isinstance(value, str):
            part = {"type": "text", "text": value}
        elif kind in _KINDS and isinstance(value, Mapping):
            part = _KINDS[kind](value, block)
        else:
            continue
        if part is not None:
            return part if part.get("extra") == block else _with_extra(part, kind, block)
    return {"type": "other", "extra": dict(block)}


def _with_extra(part: Part, kind: str, block: Block) -> Part:
    extra = {**{key: value for key, value in block.items() if key != kind}, **part.pop("extra", {})}
    return {**part, "extra": extra} if extra else part


def _rest(kind: str, value: Block, *modelled: str) -> Part:
    rest = {key: inner for key, inner in value.items() if key not in modelled and inner is not None}
    return {"extra": {kind: rest}} if rest else {}


def _tool_use(use: Block, _block: Block) -> Part | None:
    if not isinstance(name := use.get("name"), str):
        return None
    # Also one that the provider runs itself: the model asked for it in the same words, and the block's `type` stays in the extra.
    arguments = argument_text(use.get("input"))
    part = {"type": "tool_call", "id": use.get("toolUseId"), "name": name, "arguments": arguments}
    return {**part, **_rest("toolUse", use, "toolUseId", "name", "input")}


def _tool_result(result: Block, role: str, names: Mapping[str, str], block: Block) -> Part | None:
    id_, kind, content = result.get("toolUseId"), result.get("type"), result.get("content")
    if role == "assistant" or kind not in OWN_TYPES:  # the provider ran it itself
        name = names.get(id_, "") if isinstance(id_, str) else ""
        return {"type": "server_tool", "name": name or str(kind or ""), "extra": dict(block)}
    if not isinstance(content, list) or not all(isinstance(inner, Mapping) for inner in content):
        return None
    said = [_result_part(inner) for inner in content]
    return {"type": "tool_result", "id": id_, "content": said, **_rest("toolResult", result, "toolUseId", "content")}


def _result_part(block: Block) -> Part:
    if block.keys() == {"json"}:  # the model reads it as text, whatever form the client has it in
        return {"type": "text", "text": _json(block["json"]), "extra": {"json": True}}
    if "toolResult" in block:
        return {"type": "other", "extra": dict(block)}
    return _part(block, "user", {})


def _json(value: object) -> str:
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:
        raise ValueError(f"a tool's result cannot be written as JSON: {error}") from None


def _reasoning(content: Block) -> Part | None:
    said, redacted = content.get("reasoningText"), content.get("redactedContent")
    if isinstance(said, Mapping) and isinstance(text := said.get("text", ""), str):
        part: Part = {"type": "reasoning", "text": text}
        if "signature" in said:
            part["signature"] = said["signature"]
        rest = _rest("reasoningText", said, "text", "signature").get("extra", {})
        outer = {key: value for key, value in content.items() if key != "reasoningText"} | rest
        return {**part, "extra": {"reasoningContent": outer}} if outer else part
    if redacted is not None:
        part = {"type": "reasoning", "text": "", "redacted": redacted}
        return {**part, **_rest("reasoningContent", content, "redactedContent")}
    return None


def _guarded(content: Block, block: Block) -> Part | None:
    said, image = content.get("text"), content.get("image")
    if isinstance(said, Mapping) and isinstance(said.get("text"), str):
        rest = {key: value for key, value in said.items() if key != "text"}
        return {"type": "text", "text": said["text"], "extra": {"guardContent": {**content, "text": rest}}}
    return media_part("image", block, _bytes(image)) if isinstance(image, Mapping) else None


def _cited(content: Block) -> Part | None:
    said = content.get("content")
    texts = (
        [piece.get("text") if isinstance(piece, Mapping) else None for piece in said] if isinstance(said, list) else []
    )
    if not all(isinstance(text, str) for text in texts):
        return None
    single = isinstance(said, list) and len(said) == 1 and said[0].keys() == {"text"}
    rest = {key: value for key, value in content.items() if key != "content" or not single}
    return {"type": "text", "text": "".join(map(str, texts)), "extra": {"citationsContent": rest}}


def _media(kind: Literal["image", "audio", "file"]) -> Callable[[Block, Block], Part]:
    return lambda content, block: media_part(kind, block, _bytes(content))


def _bytes(content: Block) -> object:
    source = content.get("source")
    return source.get("bytes") if isinstance(source, Mapping) else None


_KINDS: dict[str, Callable[[Block, Block], Part | None]] = {
    "toolUse": _tool_use,
    "reasoningContent": lambda content, _: _reasoning(content),
    "guardContent": _guarded,
    "citationsContent": lambda content, _: _cited(content),
    "image": _media("image"),
    "audio": _media("audio"),
    "document": _media("file"),
    "video": _media("file"),
}
