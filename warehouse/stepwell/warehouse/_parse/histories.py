"""Conversations that come again with every turn, and longer: what was made of them is kept, so that a turn costs what is new in it.

Nothing depends on what is kept here but time: a prompt that begins with a known one comes to what it would come to without.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import orjson

from stepwell.exchange.canonical import Message, canonical_messages
from stepwell.warehouse._parse.keys import Begun, begun, goes_on_from, gone_on
from stepwell.warehouse._tables.json_text import json_of, kept, trimmed

_BRANCHES = 4
"""Conversations of one trajectory that are remembered: its sub-agents take turns."""


@dataclass(slots=True)  # one per step is made, and frozen it would take three times as long
class Told:
    """A prompt's messages, each in canonical form as JSON text, and their keys."""

    messages: tuple[bytes, ...]
    begun: Begun
    text: bytes = b""
    """The JSON text of the list that it was read from, without what ends it; empty where it was read from none."""
    said: int = 0
    """Bytes of all the messages, and what holds them, about."""

    @property
    def size(self) -> int:
        """Bytes that it takes, about."""
        return 1500 + len(self.text) + self.said


class Histories:
    """The last prompts of trajectories, the least recently used ones forgotten beyond `max_bytes`."""

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._max_bytes = max_bytes
        self._told: OrderedDict[Hashable, list[Told]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._told)

    def read(self, whose: Hashable, text: bytes | memoryview, model: str | None) -> Told:
        """The prompt that the JSON text of a list of messages says. It is copied once, and kept.

        Raises:
            ValueError: it is none. (A `JSONDecodeError` is one.)
            AttributeError, TypeError: it cannot be read as chat messages.
        """
        begins = _open(text)
        for told in self._told.get(whose, ()):
            if not told.text or not goes_on_from(told.begun, model) or not begins.startswith(told.text):
                continue
            more = begins[len(told.text) :].lstrip()
            if more[:1] == b",":  # where an element ended before, the list goes on
                return self._keep(whose, told, _more(told, b"[%b]" % more[1:], begins))
            if not more:
                return self._keep(whose, told, told)
        return self._keep(whose, None, _read(begins, model))

    def told(self, whose: Hashable, messages: Sequence[Message], model: str | None) -> Told:
        """The prompt of these messages, which are in canonical form."""
        texts = tuple(map(orjson.dumps, messages))
        whose = whose or texts[:2]
        for told in self._told.get(whose, ()):
            count = len(told.messages)
            if goes_on_from(told.begun, model) and texts[:count] == told.messages:
                more = _grown(told, map(trimmed, texts[count:]), gone_on(told.begun, messages[count:]))
                return self._keep(whose, told, more)
        return self._keep(whose, None, _grown(_NOTHING, map(trimmed, texts), begun(messages, model)))

    def _keep(self, whose: Hashable, before: Told | None, told: Told) -> Told:
        branches = self._told.setdefault(whose, [])
        if before is not None:
            branches.remove(before)
            self._bytes -= before.size
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


def _grown(told: Told, texts: Iterable[bytes], keys: Begun, text: bytes = b"") -> Told:
    new = tuple(texts)
    return Told((*told.messages, *new), keys, text, told.said + sum(map(len, new)) + 250 * len(new))


def _more(told: Told, rest: bytes, begins: bytes) -> Told:
    messages = _listed(rest)
    if not messages:
        raise ValueError("is no JSON: a comma before its end")
    own = canonical_messages(messages)
    return _grown(told, map(kept, own), gone_on(told.begun, own), begins)


def _read(begins: bytes, model: str | None) -> Told:
    own = canonical_messages(_listed(begins + b"]"))
    return _grown(_NOTHING, map(kept, own), begun(own, model), begins if own else b"")


def _open(text: bytes | memoryview) -> bytes:
    """The text of a list without the bracket that ends it."""
    if text[-1:] == b"]":
        return bytes(text[:-1]).rstrip()
    whole = bytes(text).rstrip()
    if whole[-1:] != b"]":
        raise ValueError("is no list")
    return whole[:-1].rstrip()


def _listed(text: bytes) -> list[Message]:
    value = json_of(text)
    if not isinstance(value, list) or set(map(type, value)) - {dict}:
        raise ValueError("is no list of objects")
    return value
