"""A content block put together from its deltas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

_DELTAS = {
    # The delta's type: its text, the block's field that this continues, the type of the block where none was opened.
    "text_delta": ("text", "text", "text"),
    "thinking_delta": ("thinking", "thinking", "thinking"),
    "signature_delta": ("signature", "signature", "thinking"),
    "input_json_delta": ("partial_json", "input", "tool_use"),
    "compaction_delta": ("content", "content", "compaction"),
    "citations_delta": ("citation", "citations", "text"),
}
_SOURCES = {field: source for source, field, _ in _DELTAS.values()}
_TAKES = {
    "text": {"text", "citations", "signature"},
    "thinking": {"thinking", "signature"},
    "redacted_thinking": {"signature"},
    "tool_use": {"input", "signature"},
}
"""What the blocks we know are made of; any other block takes whatever is sent to it."""


def delta_field(delta: Mapping[str, Any]) -> tuple[str, str]:
    """The field of the block that a delta continues, and the type of a block that would take it.

    Without a type the delta's own fields tell; `deltas` stands for one of a type that nobody here has heard of.
    """
    kind = delta.get("type")
    if isinstance(kind, str):
        return _DELTAS[kind][1:] if kind in _DELTAS else ("deltas", kind.removesuffix("_delta"))
    return next((known[1:] for known in _DELTAS.values() if known[0] in delta), ("deltas", "unknown"))


class StreamedBlock:
    """The block as it was opened, and what its deltas added."""

    def __init__(self, start: Mapping[str, Any], *, numbered: bool) -> None:
        self.numbered = numbered
        self.stopped = False
        self._fields = dict(start)
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}

    @property
    def serving_model(self) -> str | None:
        """The model that a `fallback` block says took over."""
        to = self._fields.get("to") if self._fields.get("type") == "fallback" else None
        model = to.get("model") if isinstance(to, Mapping) else None
        return model if isinstance(model, str) else None

    def takes(self, field: str) -> bool:
        """Whether a delta for `field` can be this block's."""
        kind = self._fields.get("type")
        known = _TAKES.get(kind) if isinstance(kind, str) else None
        return known is None or field in known or field == "deltas"

    def add(self, field: str, delta: Mapping[str, Any]) -> None:
        """Add one delta. Raises ValueError when it holds no text where the API promises one."""
        if field == "deltas":
            self._lists.setdefault(field, []).append(dict(delta))
            return
        source = _SOURCES[field]
        value = delta.get(source)
        if field == "citations" and value is not None:
            self._lists.setdefault(field, []).append(value)
        elif isinstance(value, str):
            self._texts.setdefault(field, []).append(value)
        elif value is not None:
            raise ValueError(f"the {source} of a delta is no text")
        self._fields.update({k: v for k, v in delta.items() if k not in ("type", source) and v is not None})

    def whole(self, closed: bool) -> dict[str, Any]:
        """The block so far. `closed`: the message ended, so that this block did as well, even if nobody said so."""
        block = dict(self._fields)
        for field, pieces in self._texts.items():
            begun = block.get(field)
            block[field] = "".join([begun, *pieces] if isinstance(begun, str) else pieces)
        for field, items in self._lists.items():
            begun = block.get(field)
            block[field] = [*begun, *items] if isinstance(begun, list) else items
        if "input" in self._texts and block["input"]:
            block["input"] = block["input"] if block.get("type") == "tool_use" else _parsed(block["input"])
        elif "input" in self._texts or "input" in block:
            given = self._fields.get("input")
            # Before the first piece the input is an empty object. It is the call's only when the block has ended.
            block["input"] = given if given or closed or self.stopped else None
        return block


def _parsed(text: str) -> Any:
    """What the text of a server tool's input says; the text itself where it was cut."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return value if isinstance(value, dict) else text
