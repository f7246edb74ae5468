"""Conversations that come again with every turn, and longer: what was made of them is kept, so that a turn costs what is new in it.

Nothing depends on what is kept here but time: a prompt that begins with a known one comes to what it would come to without.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import orjson

from stepwell.exchange.canonical import Message, written
from stepwell.warehouse._parse.joined import Joined
from stepwell.warehouse._parse.keys import Begun, begun, goes_on_from, gone_on
from stepwell.warehouse._tables.json_text import json_of, trimmed

_BRANCHES = 4
"""Conversations of one trajectory that are remembered: its sub-agents take turns."""


@dataclass(slots=True)  # one per step is made, and frozen it would take three times as long
class Told:
    """A prompt's messages, each in canonical form as JSON text, and their keys."""

    messages: tuple[bytes, ...]
    begun: Begun
    text: bytearray | None = None
    """The JSON text of the list that it was read from, without what ends it; None where it was read from none.

    A prompt that goes on from this one takes the bytes over, and adds its own: of a long conversation nothing is copied then.
    """
    size: int = 1500
    """Bytes that all of it takes, about."""


class Histories:
    """The last prompts of trajectories, as texts and as ids, the least recently used ones of each forgotten beyond `max_bytes`."""

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._max_bytes = max_bytes
        self._told: OrderedDict[Hashable, list[Told]] = OrderedDict()
        self._bytes = 0
        self.ids = Joined(max_bytes)

    def __len__(self) -> int:
        return len(self._told)

    def read(self, whose: Hashable, text: bytes | memoryview, model: str | None) -> Told:
        """The prompt that the JSON text of a list of messages says. What is new of it is copied, and kept.

        Raises:
            ValueError: it is none. (A `JSONDecodeError` is one.)
            AttributeError, TypeError: it cannot be read as chat messages.
        """
        begins = _open(text)
        for place, told in enumerate(self._told.get(whose, ())):
            known = told.text
            if known is None or known != begins[: (size := len(known))] or not goes_on_from(told.begun, model):
                continue
            more = bytes(begins[size:]).lstrip()
            if more[:1] == b",":  # where an element ended before, the list goes on
                grown = _more(told, b"[%b]" % more[1:])
                told.text = None  # whatever happens now, its bytes are not those that it was read from any more
                known += begins[size:]
                grown.text, grown.size = known, grown.size + len(known)
                return self._keep(whose, place, grown)
            if not more:
                return self._keep(whose, place, told)
        return self._keep(whose, None, _read(begins, model))

    def told(self, whose: Hashable, messages: Sequence[Message], model: str | None) -> Told:
        """The prompt of these messages, which are in canonical form."""
        texts = tuple(map(orjson.dumps, messages))
        whose = whose or texts[:2]
        for place, told in enumerate(self._told.get(whose, ())):
            count = len(told.messages)
            if goes_on_from(told.begun, model) and texts[:count] == told.messages:
                more = _grown(told, map(trimmed, texts[count:]), gone_on(told.begun, messages[count:]))
                return self._keep(whose, place, more)
        return self._keep(whose, None, _grown(_NOTHING, map(trimmed, texts), begun(messages, model)))

    def _keep(self, whose: Hashable, place: int | None, told: Told) -> Told:
        """`told` as the last one of its trajectory, instead of the one at `place`."""
        branches = self._told.setdefault(whose, [])
        if place is not None:
            self._bytes -= branches.pop(place).size
        branches.insert(0, told)
        self._bytes += told.size
        if len(branches) > _BRANCHES:
            self._bytes -= branches.pop().size
        self._told.move_to_end(whose)
        while self._bytes > self._max_bytes:
            _, oldest = self._told.popitem(last=False)
            self._bytes -= sum(one.size for one in oldest)
        return told


_NOTHING = Told((), begun(()))


def _grown(told: Told, texts: Iterable[bytes], keys: Begun) -> Told:
    new = tuple(texts)
    size = told.size + sum(map(len, new)) + 250 * len(new)
    return Told((*told.messages, *new), keys, size=size if told.text is None else size - len(told.text))


def _more(told: Told, rest: bytes) -> Told:
    messages = _listed(rest)
    if not messages:
        raise ValueError("is no JSON: a comma before its end")
    own, texts, forms = _written(messages)
    return _grown(told, texts, gone_on(told.begun, own, forms))


def _read(begins: memoryview, model: str | None) -> Told:
    text = bytearray(begins)
    own, texts, forms = _written(_listed(bytes(text + b"]")))
    read = _grown(_NOTHING, texts, begun(own, model, forms=forms))
    if own:
        read.text, read.size = text, read.size + len(text)
    return read


def _written(messages: Iterable[Message]) -> tuple[tuple[Message, ...], tuple[bytes, ...], tuple[bytes, ...]]:
    """The messages, their JSON texts, and what is compared of them."""
    made = [written(message) for message in messages]
    own, texts, forms = zip(*made, strict=True) if made else ((), (), ())
    return own, texts, forms


def _open(text: bytes | memoryview) -> memoryview:
    """The text of a list without the bracket that ends it."""
    begins = memoryview(text)[:-1]
    if text[-1:] != b"]" or (begins and begins[-1] in b" \t\n\r\v\f"):
        whole = bytes(text).rstrip()
        if whole[-1:] != b"]":
            raise ValueError("is no list")
        begins = memoryview(whole[:-1].rstrip())
    return begins


def _listed(text: bytes) -> list[Message]:
    value = json_of(text)
    if not isinstance(value, list) or set(map(type, value)) - {dict}:
        raise ValueError("is no list of objects")
    return value
