"""Canonical messages as chat templates take them: texts, tool calls, tool results, reasoning, and places for images."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import orjson

from stepwell.reader._parts import Part, by_results, is_result
from stepwell.reader._realise.needs import Refused

Message = dict[str, Any]
MEDIA = ("image", "audio", "file")


def chat_messages(messages: list[Message], media: Collection[str] = ()) -> tuple[list[Message], list[str]]:
    """The messages for a template, and the content hashes of images and the like, in their order.

    A tool result becomes a message of the role `tool`; a message that holds several becomes as many.

    Args:
        media: Kinds (`image`, `audio`, `file`) that there are placeholders for.

    Raises:
        Refused: a message holds what no template takes; media without a placeholder, or without a hash to tell them apart by.
    """
    hashes: list[str] = []
    return [plain for message in messages for plain in _plain(message, media, hashes)], hashes


def answer_message(answer: Message) -> Message:
    """The assistant's answer. Raises Refused also for one that is no single message of the assistant, or says nothing."""
    found = _plain(answer, (), [])
    if len(found) != 1 or found[0]["role"] != "assistant":
        raise Refused("the answer is not one message of the assistant")
    if not (found[0]["content"] or found[0].keys() & {"reasoning_content", "tool_calls"}):
        raise Refused("the answer is empty")
    return found[0]


def _plain(message: Message, media: Collection[str], hashes: list[str]) -> list[Message]:
    return [
        _result(piece[0], media, hashes) if is_result(piece) else _said(message["role"], piece, media, hashes)
        for piece in by_results(message["content"])
    ]


def _result(part: Part, media: Collection[str], hashes: list[str]) -> Message:
    return {"role": "tool", "tool_call_id": part.get("id"), "content": _content(part["content"], media, hashes)}


def _said(role: str, parts: list[Part], media: Collection[str], hashes: list[str]) -> Message:
    calls = [_call(part) for part in parts if part["type"] == "tool_call"]
    thoughts = [part for part in parts if part["type"] == "reasoning"]
    if any(part.get("redacted") or not part["text"] for part in thoughts):
        raise Refused("reasoning that the provider withheld")
    rest = [part for part in parts if part["type"] not in ("tool_call", "reasoning")]
    made: Message = {"role": role, "content": _content(rest, media, hashes)}
    if thoughts:
        made["reasoning_content"] = "".join(part["text"] for part in thoughts)
    return {**made, "tool_calls": calls} if calls else made


def _call(part: Part) -> dict[str, Any]:
    """Arguments as an object: templates write them down in a form of their own."""
    try:
        arguments = orjson.loads(part["arguments"] or "{}")
    except orjson.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        raise Refused("a tool call whose arguments are no JSON object")
    return {"id": part.get("id"), "type": "function", "function": {"name": part["name"], "arguments": arguments}}


def _content(parts: list[Part], media: Collection[str], hashes: list[str]) -> str | list[Part]:
    """A text, or where media are among it the list of parts that templates for them walk through."""
    made: list[Part] = []
    for part in parts:
        match part["type"]:
            case "text" | "refusal":
                made.append({"type": "text", "text": part["text"]})
            case kind if kind in MEDIA:
                if kind not in media:
                    raise Refused(f"media of the kind {kind}, for which there is no placeholder")
                if not isinstance(part.get("hash"), str):
                    raise Refused(f"media of the kind {kind} without a content hash")
                hashes.append(part["hash"])
                made.append({"type": kind})
            case kind:
                raise Refused(f"a part of the type {kind}")
    if all(part["type"] == "text" for part in made):
        return "".join(part["text"] for part in made)
    return made
