"""What the dialects share when they translate: chat's words for what was asked, and a sample's pieces for what is answered."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

import orjson

from stepwell.testing._dialect import Json, Unsayable
from stepwell.testing._sampling import Sample
from stepwell.testing._script import ToolCall
from stepwell.testing._stream import Deltas


def function_tool(name: object, description: object = None, parameters: object = None) -> Json:
    """A tool as chat describes it."""
    fields = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": {key: value for key, value in fields.items() if value is not None}}


def made_call(id_: object, name: object, arguments: object) -> Json:
    """A tool call of an earlier turn. Arguments that are no text yet become JSON."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {"id": id_, "type": "function", "function": {"name": name, "arguments": text}}


def assistant(texts: Sequence[str], thoughts: Sequence[str] = (), calls: Sequence[Json] = ()) -> Json:
    """An earlier turn of the assistant, as a chat engine would have answered it."""
    message: Json = {"role": "assistant", "content": "".join(texts) if texts or not calls else None}
    if thoughts:
        message["reasoning"] = "".join(thoughts)
    return message | {"tool_calls": list(calls)} if calls else message


def tool_result(id_: object, content: object) -> Json:
    """What a tool answered; what is neither text nor parts of a message is shown as JSON."""
    shown = content if isinstance(content, str | list) else json.dumps(content, ensure_ascii=False)
    return {"role": "tool", "tool_call_id": id_, "content": shown}


def said(role: str, parts: Sequence[Json]) -> Json:
    """A message of chat parts; a single text stands by itself, as clients write it."""
    alone = len(parts) == 1 and parts[0]["type"] == "text"
    return {"role": role, "content": parts[0]["text"] if alone else list(parts)}


def text_part(text: object) -> Json:
    return {"type": "text", "text": str(text or "")}


def image_part(url: object) -> Json:
    return {"type": "image_url", "image_url": {"url": url}}


def object_of(call: ToolCall) -> orjson.Fragment:
    """A call's arguments as a JSON value in the very letters that were sampled. Raises `Unsayable` when they are no object."""
    try:
        value: Any = orjson.loads(call.arguments or "{}")
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise Unsayable(f"the arguments of the call to {call.name!r} are no JSON object, as this API's have to be")
    return orjson.Fragment(call.arguments or "{}")


class Piece(NamedTuple):
    """A piece of an answer. `call`: a tool call begins, and its text is empty; `arguments`: some of its text."""

    kind: Literal["reasoning", "content", "call", "arguments"]
    text: str
    call: int = -1


def pieces_of(sample: Sample, chunk_tokens: int) -> Iterator[Piece]:
    """A sample's pieces in their order, of so many tokens each; markup, and characters that are not whole, are left out."""
    deltas = Deltas(sample)
    for start in range(0, max(len(sample.ids), 1), chunk_tokens):
        stop = min(start + chunk_tokens, len(sample.ids))
        yield from _pieces(deltas.take(sample.bounds[stop - 1] if stop else 0))


def blocks_of(sample: Sample, chunk_tokens: int) -> Iterator[tuple[str, int, Iterator[Piece]]]:
    """A sample's pieces as the content blocks that some APIs number: each with its kind, the index of its call (-1: none) and its pieces.

    A call and its arguments are one block. To be read block by block, each to its end.
    """

    def block(piece: Piece) -> tuple[str, int]:
        return "call" if piece.kind == "arguments" else piece.kind, piece.call

    for (kind, call), pieces in groupby(pieces_of(sample, chunk_tokens), block):
        yield kind, call, pieces


def _pieces(delta: Mapping[str, Any]) -> Iterator[Piece]:
    if thought := delta.get("reasoning"):
        yield Piece("reasoning", thought)
    if text := delta.get("content"):
        yield Piece("content", text)
    for call in delta.get("tool_calls", ()):
        if "id" in call:
            yield Piece("call", "", call["index"])
        if arguments := call["function"]["arguments"]:
            yield Piece("arguments", arguments, call["index"])


def sse(data: bytes, event: str = "") -> bytes:
    """One server-sent event."""
    return b"%bdata: %b\n\n" % (f"event: {event}\n".encode() if event else b"", data)
