"""The output items of a Responses answer: whole, and event by event."""

from __future__ import annotations

from collections.abc import Iterator

from stepwell.testing._dialect import Json, Turn
from stepwell.testing._wire import answer_of
from stepwell.testing._words import Piece


def items_of(turn: Turn) -> list[Json]:
    """The items of a plain answer: thoughts, text, calls."""
    answer = answer_of(turn.samples[0])
    items: list[Json] = []
    if answer.reasoning:
        items.append(_filled(_reasoning(turn, len(items)), answer.reasoning))
    if answer.content:
        items.append(_filled(_message(turn, len(items)), answer.content))
    for index, call in enumerate(answer.tool_calls):
        items.append(_filled(_call(turn, len(items), index), call.arguments))
    return items


class ItemEvents:
    """Writes pieces as events; `items` are those that have ended."""

    def __init__(self, turn: Turn) -> None:
        self.items: list[Json] = []
        self._turn = turn
        self._place = ("", -1)
        self._open: Json | None = None
        self._texts: list[str] = []

    def add(self, piece: Piece) -> Iterator[Json]:
        """The events of one piece."""
        kind = "call" if piece.kind == "arguments" else piece.kind
        if (kind, piece.call) != self._place:
            yield from self.close()
            self._place = (kind, piece.call)
            yield from self._begin(kind, piece.call)
        if piece.text:
            self._texts.append(piece.text)
            yield self._event("delta", delta=piece.text)

    def close(self) -> Iterator[Json]:
        """The events that end the item that is open, if one is."""
        if self._open is None:
            return
        text = "".join(self._texts)
        item = _filled(self._open, text)
        yield self._event("done", **{"arguments" if self._place[0] == "call" else "text": text})
        if part := _part(item):
            yield self._of_item("response.content_part.done", item_id=item["id"], content_index=0, part=part)
        yield self._of_item("response.output_item.done", item=item)
        self.items.append(item)
        self._open, self._texts, self._place = None, [], ("", -1)

    def _begin(self, kind: str, call: int) -> Iterator[Json]:
        place = len(self.items)
        if kind == "call":
            item = _call(self._turn, place, call)
        else:
            item = _reasoning(self._turn, place) if kind == "reasoning" else _message(self._turn, place)
        self._open = item
        yield self._of_item("response.output_item.added", item={**item, "status": "in_progress"})
        if part := _part(_filled(item, "")):
            yield self._of_item("response.content_part.added", item_id=item["id"], content_index=0, part=part)

    def _event(self, what: str, **fields: str) -> Json:
        kind = {"call": "function_call_arguments", "reasoning": "reasoning_text"}.get(self._place[0], "output_text")
        assert self._open is not None
        more: Json = {"item_id": self._open["id"], **fields}
        if kind != "function_call_arguments":
            more["content_index"] = 0
        elif what == "done":
            more["name"] = self._open["name"]
        if kind == "output_text":
            more["logprobs"] = []
        return self._of_item(f"response.{kind}.{what}", **more)

    def _of_item(self, kind: str, **fields: object) -> Json:
        return {"type": kind, "output_index": len(self.items), **fields}


def _part(item: Json) -> Json | None:
    content = item.get("content") or [None]
    part: Json | None = content[0]
    return part


def _filled(item: Json, text: str) -> Json:
    """An item with its text, ended."""
    match item["type"]:
        case "function_call":
            return {**item, "arguments": text, "status": "completed"}
        case "reasoning":
            return {**item, "content": [{"type": "reasoning_text", "text": text}], "status": "completed"}
        case _:
            part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
            return {**item, "content": [part], "status": "completed"}


def _reasoning(turn: Turn, place: int) -> Json:
    return {"id": f"rs_{turn.id}_{place}", "type": "reasoning", "summary": [], "content": []}


def _message(turn: Turn, place: int) -> Json:
    return {"id": f"msg_{turn.id}_{place}", "type": "message", "role": "assistant", "content": []}


def _call(turn: Turn, place: int, index: int) -> Json:
    call = turn.samples[0].tool_calls[index]
    return {
        "id": f"fc_{turn.id}_{place}",
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": "",
    }
