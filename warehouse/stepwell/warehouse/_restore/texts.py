"""Whole messages, responses and tools, from operations over their bases and from payloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.warehouse._encode.payloads import Lookup, resolved, resolved_tools
from stepwell.warehouse._restore.bases import Bases, Broken
from stepwell.warehouse._restore.media import may_show, media_of

_MESSAGES = ("messages_ops", "messages_suffix", "response", "payload_ids")
TEXTS_NEEDED = {
    "messages": _MESSAGES,
    "plain_messages": _MESSAGES,
    "media": _MESSAGES,
    "tools": ("tools", "payload_ids"),
    "response": ("response", "payload_ids"),
}


class _Lost(NamedTuple):
    """In the place of a text that cannot be had."""

    why: str


_Text = str | _Lost


class Texts:
    """The texts of the rows of a table of steps. What cannot be restored is null, and named in `broken`."""

    def __init__(self, bases: Bases, payloads: Lookup | None, broken: Broken) -> None:
        self._bases = bases
        self._broken = broken
        self._row_of_base: list[int] = bases.row.tolist()
        column = bases.steps["payload_ids"]
        self._refers = column.is_valid().to_pylist()
        ids = pc.call_function("list_flatten", [column]).unique().to_pylist()
        self._payloads: Mapping[str, bytes] = payloads(ids) if ids and payloads is not None else {}
        self._found_all = len(self._payloads) == sum(id_ is not None for id_ in ids)
        self._response: list[_Text | None] | None = None

    def responses(self) -> pa.Array:
        """`response` of each row."""
        return self._array([text if isinstance(text, str | None) else [text] for text in self._responses()])

    def messages(self) -> pa.Array:
        """`messages` of each row, a JSON list."""
        whole: list[Any] = [None] * self._bases.count
        for row, found, _ in self._conversations():
            whole[row] = [found] if isinstance(found, _Lost) else found
        return self._array(whole, ("[", "]"))

    def conversations(self) -> list[tuple[bytes, ...]]:
        """The messages of each row and its response, each as JSON; what several rows share are the same objects. Empty where broken."""
        once: dict[str, bytes] = {}
        whole: list[tuple[bytes, ...]] = [()] * self._bases.count
        for row, found, response in self._conversations():
            said: list[_Text] = [found] if isinstance(found, _Lost) else [*(found or ()), *response]
            lost = next((text for text in said if isinstance(text, _Lost)), None)
            if lost is not None:
                self._broken.setdefault(row, lost.why)
                continue
            texts = (text for text in said if isinstance(text, str))
            whole[row] = tuple(once[text] if text in once else once.setdefault(text, text.encode()) for text in texts)
        return whole

    def media(self) -> pa.Array:
        """What messages and response of each row show beside text (see `media_of`); null for a row without messages."""
        there = self._bases.steps["messages_suffix"].is_valid().to_pylist()
        stored = [text for name in ("messages_suffix", "response") for text in self._bases.steps[name].chunks]
        if self._found_all and not may_show(stored, self._payloads.values()):
            return pa.array([[] if has else None for has in there], pa.list_(pa.string()))
        found = zip(media_of(self.conversations()), there, strict=True)
        return pa.array([media if has else None for media, has in found], pa.list_(pa.string()))

    def _conversations(self) -> Iterator[tuple[int, list[_Text] | _Lost | None, list[_Text]]]:
        """Each row, bases first: the messages of its prompt, None where it has none, and its response if there is one."""
        suffixes, ops, responses = self._column("messages_suffix"), self._column("messages_ops"), self._responses()
        said: list[list[_Text] | _Lost] = [[]] * self._bases.count
        for row in self._bases.order.tolist():
            response = [text] if (text := responses[row]) else []
            found: list[_Text] | _Lost | None = None
            if (suffix := suffixes[row]) is not None:
                base = self._row_of_base[row]
                found = self._applied(row, ops[row] or (), suffix, said[base] if base >= 0 else [])
            said[row] = found if isinstance(found, _Lost) else [*(found or ()), *response]
            yield row, found, response

    def tools(self) -> pa.Array:
        """`tools` of each row, null where it has none."""
        stored = self._column("tools")
        whole: list[_Text | None] = [None] * self._bases.count
        for row in self._bases.order.tolist():
            base, text = self._row_of_base[row], stored[row]
            if text is not None:
                whole[row] = self._resolved(row, text, resolved_tools)
            elif self._bases.lost[row]:
                whole[row] = _Lost(self._bases.why_lost(row))
            elif base >= 0:
                whole[row] = whole[base]
        shown = (None if text == "null" else text for text in whole)
        return self._array([text if isinstance(text, str | None) else [text] for text in shown])

    def _column(self, name: str) -> list[Any]:
        return list(self._bases.steps[name].to_pylist())

    def _responses(self) -> list[_Text | None]:
        if self._response is None:
            stored = self._column("response")
            self._response = [
                self._resolved(row, text, _message) if text and refers else text
                for row, (text, refers) in enumerate(zip(stored, self._refers, strict=True))
            ]
        return self._response

    def _applied(self, row: int, ops: Sequence[int], suffix: str, base: list[_Text] | _Lost) -> list[_Text] | _Lost:
        """The messages of a row: the base's with its response, as its operations say, and its own."""
        own = [self._own(row, message) for message in orjson.loads(suffix)]
        if not ops:
            return own
        if isinstance(base, _Lost):
            return base
        found: list[_Text] = []
        at = 0
        for source, copied, count in zip(ops[0::3], ops[1::3], ops[2::3], strict=True):
            if source < 0 or source + copied > len(base):
                why = f"the messages of step {self._bases.name(row)} cannot be restored: its base has too few"
                return _Lost(self._bases.why_lost(row) if self._bases.lost[row] else why)
            found += base[source : source + copied]
            found += own[at : at + count]
            at += count
        return found

    def _own(self, row: int, message: dict[str, Any]) -> _Text:
        if self._refers[row]:
            return self._resolved(row, message, resolved)
        return orjson.dumps(message).decode()

    def _resolved(self, row: int, stored: Any, resolve: Any) -> _Text:
        try:
            text: str = resolve(stored, self._payloads)
        except KeyError as error:
            return _Lost(f"step {self._bases.name(row)} refers to payload {error.args[0]}, which is not there")
        return text

    def _array(self, whole: Sequence[Any], ends: tuple[str, str] = ("", "")) -> pa.Array:
        """Texts, or lists of such to be joined between the `ends`."""
        shown: list[str | None] = []
        for row, texts in enumerate(whole):
            if texts is None or isinstance(texts, str):
                shown.append(texts)
                continue
            try:
                shown.append(f"{ends[0]}{','.join(texts)}{ends[1]}")
            except TypeError:
                # The rare one that is not whole: looking for it in every row would take longer than joining.
                self._broken.setdefault(row, next(text.why for text in texts if isinstance(text, _Lost)))
                shown.append(None)
        return pa.array(shown, pa.large_string())


def _message(text: str, payloads: Mapping[str, bytes]) -> str:
    return resolved(orjson.loads(text), payloads)
