"""One Anthropic message put together from the events of a stream.

Tolerates what compatible servers and gateways send: no index, no `content_block_start` or `_stop`, no `message_stop`, usage in either
end, a second `message_start`. Texts are joined once, at the end: adding strings would be quadratic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.exchange._anthropic.blocks import StreamedBlock, delta_field
from stepwell.exchange._body import without

STOP = ("stop_reason", "stop_sequence", "stop_details")
_OF_EVENT = ("type", "usage", "message", "delta", "index", "error")
_OF_BLOCK = frozenset({"type", "index", "content_block", "delta"})
_FIRST = frozenset({"id", "model", "role"})
"""Their first value stands: gateways repeat them, now and then with less in them."""


class StreamedMessage:
    """`add` every event, then take the `message`: the fields that a plain answer would have."""

    def __init__(self) -> None:
        self.error: Any = None
        self.stopped = False
        self.stop: dict[str, Any] = {}
        """What `message_delta` said of why it ended."""
        self._begun = False
        self._latest: Any = None
        """The id of the message that the events now are of."""
        self._root: dict[str, Any] = {}
        self._usage: dict[str, Any] = {}
        self._others: dict[str, list[Any]] = {}
        self._blocks: list[StreamedBlock] = []
        self._by_index: dict[int, StreamedBlock] = {}
        self._first = 0
        """The place of the last generation's first block."""

    @property
    def said(self) -> bool:
        """Whether there was anything of a message."""
        return bool(self._begun or self._blocks or self.stop)

    def add(self, event: Mapping[str, Any]) -> None:
        """Add one event. Raises ValueError when it is not what the API promises."""
        kind = event.get("type")
        if kind == "error" or event.get("error"):
            self.error = event.get("error") or without(dict(event), "type") or "an error event without a word"
        match kind:
            case "message_start":
                self._start(event)
            case "content_block_start" | "content_block_delta" | "content_block_stop":
                self._in_block(event)
            case "message_delta":
                self._end({**event, **_object(event, "delta")})
            case "message_stop":
                self.stopped = True
                self._rest(event)
            case "ping":
                pass
            case _ if kind == "error" or event.get("error"):
                self._rest(event)
            case _:
                self.keep(event)

    def keep(self, event: object) -> None:
        """An event that says nothing we know, kept as it came."""
        self._others.setdefault("events", []).append(event)

    def _start(self, event: Mapping[str, Any]) -> None:
        message = _object(event, "message")
        known, named = self._root.get("id"), message.get("id")
        if known and named and named != self._latest:
            self._restart(message)
        content = message.get("content")
        if isinstance(content, list) and (not self._begun or named != self._latest):
            for block in content:
                self._open(block, None)
        self._begun, self._latest = True, named or self._latest
        self._count(message.get("usage"))
        self._rest(event)
        for key, value in message.items():
            if key not in ("content", "usage") and value is not None and not self._root.get(key):
                self._root[key] = value

    def _restart(self, message: Mapping[str, Any]) -> None:
        """A gateway lost its upstream and began anew in the same body: what had come stays, and stays apart."""
        self._others.setdefault("restarts", []).append({**message, "before": self.stop} if self.stop else dict(message))
        self._by_index, self._first = {}, len(self._blocks)
        self.stop, self.stopped = {}, False

    def _in_block(self, event: Mapping[str, Any]) -> None:
        index = event.get("index")
        match event["type"]:
            case "content_block_start":
                self._open(_object(event, "content_block"), index)
            case "content_block_delta":
                self._add_delta(_object(event, "delta"), index)
            case _ if block := self._at(index):
                block.stopped = True
        if not event.keys() <= _OF_BLOCK:
            self._rest(event, "content_block")

    def _end(self, fields: Mapping[str, Any]) -> None:
        self.stop.update({key: fields[key] for key in STOP if fields.get(key) is not None})
        self._rest(fields, *STOP)

    def _rest(self, event: Mapping[str, Any], *known: str) -> None:
        """The event's other fields belong to the message: `container`, `context_management`, a gateway's own."""
        self._count(event.get("usage"))
        rest = without(dict(event), *_OF_EVENT, *known)
        self._root.update({key: value for key, value in rest.items() if key not in _FIRST or not self._root.get(key)})

    def _count(self, usage: object) -> None:
        """Counters are cumulative: a field's last value is the one that holds (anthropic-sdk-python, `accumulate_event`)."""
        if not isinstance(usage, Mapping | None):
            raise ValueError("usage is no object")
        self._usage.update(without(dict(usage or {})))

    def _open(self, block: object, index: object) -> StreamedBlock:
        if not isinstance(block, Mapping):
            raise ValueError("a content block is no object")
        opened = StreamedBlock(block, numbered=type(index) is int)
        self._blocks.append(opened)
        if isinstance(index, int):
            self._by_index[index] = opened
        return opened

    def _at(self, index: object) -> StreamedBlock | None:
        """The block of an index; the last one where either of them has no number."""
        if isinstance(index, int) and index in self._by_index:
            return self._by_index[index]
        last = self._blocks[-1] if len(self._blocks) > self._first else None
        return last if last and not (isinstance(index, int) and last.numbered) else None

    def _add_delta(self, delta: Mapping[str, Any], index: object) -> None:
        field, kind = delta_field(delta)
        block = self._at(index)
        if block is None or not block.takes(field):
            block = self._open({"type": kind}, index)
        block.add(field, delta)

    def message(self) -> dict[str, Any]:
        """The answer's body as far as it came; its blocks' `input` are texts where they were streamed."""
        closed = self.stopped or bool(self.stop.get("stop_reason"))
        blocks = [block.whole(closed and place >= self._first) for place, block in enumerate(self._blocks)]
        message: dict[str, Any] = {**self._root, **self._others, "content": blocks}
        # What `message_start` says of the end is a promise, until the end has come.
        ended: dict[str, Any] = self.stop if self.stop or self.stopped else dict.fromkeys(STOP)
        served = [model for block in self._blocks if (model := block.serving_model)]
        model = served[-1] if served else message.get("model")
        return without({**message, **ended, "usage": self._usage or None, "model": model})


def _object(event: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = event.get(name)
    if not isinstance(value, Mapping | None):
        raise ValueError(f"a {event.get('type')} event's {name} is no object")
    return value or {}
