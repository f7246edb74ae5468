"""The content blocks of a Converse stream, put together from their deltas into those of a plain answer.

An index names its block; blocks may come in turns. A delta of another kind than the last one opens a piece of its own, since some
models stream a thought and the text after it under one index. Texts are joined once, at the end.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from stepwell.exchange._chat.messages import argument_text
from stepwell.exchange._dialect import Unparseable


class BlockDeltas:
    """`start`, `add` and `stop` as the events come, then take the `blocks`."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._open: dict[int, _Block] = {}

    def start(self, event: Mapping[str, Any]) -> None:
        """A `contentBlockStart`: the block it opens is another one, whatever its index says."""
        self._opened(event, _fields(event, "start"))

    def add(self, event: Mapping[str, Any]) -> None:
        """A `contentBlockDelta`. Raises Unparseable when it is not what the API promises."""
        index = _index(event)
        block = self._open.get(index) if index is not None else (self._blocks[-1] if self._blocks else None)
        block = block or self._opened(event, {})
        for kind, value in _fields(event, "delta").items():
            if value is not None:
                block.add(kind, value)

    def stop(self, event: Mapping[str, Any]) -> None:
        """A `contentBlockStop`: a later delta of this index is of another block."""
        index = _index(event)
        if index is not None:
            self._open.pop(index, None)

    def _opened(self, event: Mapping[str, Any], start: Mapping[str, Any]) -> _Block:
        index = _index(event)
        block = _Block(len(self._blocks) if index is None else index)
        self._blocks.append(block)
        if index is not None:
            self._open[index] = block
        for kind, value in start.items():
            if value is not None:
                block.begin(kind, value)
        return block

    def blocks(self) -> list[dict[str, Any]]:
        """The blocks in the order of their indices; those of one index in the order in which they came."""
        ordered = sorted(self._blocks, key=lambda block: block.index)
        return [made for block in ordered for made in block.whole()]


def _index(event: Mapping[str, Any]) -> int | None:
    index = event.get("contentBlockIndex")
    return index if type(index) is int else None


def _fields(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    fields = event.get(name) or {}
    if not isinstance(fields, Mapping):
        raise Unparseable(f"a content block's {name} is no object")
    return fields


class _Block:
    def __init__(self, index: int) -> None:
        self.index = index
        self._pieces: list[_Piece] = []

    def begin(self, kind: str, start: object) -> None:
        piece = _Piece(kind)
        piece.start = start
        self._pieces.append(piece)

    def add(self, kind: str, value: object) -> None:
        run = "text" if kind == "citation" else kind
        if not self._pieces or self._pieces[-1].kind != run:
            self._pieces.append(_Piece(run))
        self._pieces[-1].deltas.append((kind, value))

    def whole(self) -> list[dict[str, Any]]:
        return [block for piece in self._pieces for block in piece.whole()]


class _Piece:
    """The deltas of one kind in a row."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.start: object = None
        self.deltas: list[tuple[str, object]] = []

    def whole(self) -> list[dict[str, Any]]:
        values = [value for _, value in self.deltas]
        start = dict(self.start) if isinstance(self.start, Mapping) else {}
        if self.kind == "text" and all(isinstance(value, str) for kind, value in self.deltas if kind == "text"):
            return self._text()
        if self.kind == "toolResult" and all(isinstance(value, list) for value in values):
            content = [inner for value in values if isinstance(value, list) for inner in value]
            return [{"toolResult": {**start, "content": _joined_texts(content)}}]
        if all(isinstance(value, Mapping) for value in values):
            deltas = [value for value in values if isinstance(value, Mapping)]
            if self.kind == "toolUse":
                return [{"toolUse": _tool_use(start, deltas)}]
            if self.kind == "reasoningContent":
                return _reasoning(deltas)
            if self.kind in ("image", "audio"):
                return [{self.kind: _media(start, deltas)}]
        return [{self.kind: {"start": self.start, "deltas": values}}]  # of a kind that is not known: kept

    def _text(self) -> list[dict[str, Any]]:
        text = "".join(str(value) for kind, value in self.deltas if kind == "text")
        citations = [value for kind, value in self.deltas if kind == "citation"]
        if citations:
            return [{"citationsContent": {"content": [{"text": text}], "citations": citations}}]
        return [{"text": text}] if text else []


def _tool_use(start: dict[str, Any], deltas: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The input stays the text that was streamed: cut or malformed, it is what the model said."""
    try:
        pieces = [argument_text(delta.get("input")) for delta in deltas]
    except ValueError as error:
        raise Unparseable(str(error)) from None
    rest = {key: value for delta in deltas for key, value in delta.items() if key != "input"}
    return {"name": "", **start, **rest, "input": "".join(pieces)}


def _reasoning(deltas: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    texts = [text for delta in deltas if isinstance(text := delta.get("text"), str)]
    signatures = [said for delta in deltas if isinstance(said := delta.get("signature"), str)]
    redacted = [data for delta in deltas if isinstance(data := delta.get("redactedContent"), str)]
    known = ("text", "signature", "redactedContent")
    rest = {key: value for delta in deltas for key, value in delta.items() if key not in known}
    blocks: list[dict[str, Any]] = []
    if texts or signatures or not redacted:
        signed = {"signature": "".join(signatures)} if signatures else {}
        blocks.append({"reasoningContent": {**rest, "reasoningText": {"text": "".join(texts), **signed}}})
    if redacted:
        blocks.append({"reasoningContent": {"redactedContent": _joined_base64(redacted)}})
    return blocks


def _media(start: dict[str, Any], deltas: list[Mapping[str, Any]]) -> dict[str, Any]:
    media = {**start, **{key: value for delta in deltas for key, value in delta.items()}}
    sources = [source for delta in deltas if isinstance(source := delta.get("source"), Mapping)]
    pieces = [data for source in sources if isinstance(data := source.get("bytes"), str)]
    return {**media, "source": {**sources[-1], "bytes": _joined_base64(pieces)}} if pieces else media


def _joined_base64(pieces: list[str]) -> str:
    """Each piece is base64 of its own bytes, padded: it is the bytes that are joined."""
    if len(pieces) == 1:
        return pieces[0]
    try:
        return base64.b64encode(b"".join(base64.b64decode(piece, validate=True) for piece in pieces)).decode()
    except (binascii.Error, ValueError):
        return "".join(pieces)


def _joined_texts(content: list[Any]) -> list[Any]:
    """A tool's result comes in pieces of text, too."""
    joined: list[Any] = []
    for is_text, group in groupby(content, key=_is_text):
        run = list(group)
        joined += [{"text": "".join(piece["text"] for piece in run)}] if is_text else run
    return joined


def _is_text(piece: object) -> bool:
    return isinstance(piece, Mapping) and piece.keys() == {"text"} and isinstance(piece["text"], str)
