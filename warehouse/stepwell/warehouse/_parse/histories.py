"""Conversations that come again with every turn, and longer: what was made of them is kept, so that a turn costs what is new in it.

Nothing depends on what is kept here but time: a prompt that begins with a known one comes to what it would come to without.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import orjson

from stepwell.exchange.canonical import Message, canonical_messages
from stepwell.warehouse._parse.keys import Begun, begun, goes_on_from, gone_on
from stepwell.warehouse._tables.json_text import json_of, kept, trimmed

_BRANCHES = 4
"""Conversations of one trajectory that are remembered: its sub-agents take turns."""


@dataclass(frozen=True, slots=True)
class Told:
    """A prompt's messages, each in canonical form as JSON text, and their keys."""

    messages: tuple[bytes, ...]
    begun: Begun
    text: bytes = b""
    """The JSON text of the list that it was read from, without what ends it; empty where it was read from none."""

    @property
    def size(self) -> int:
        return 1500 + len(self.text) + sum(map(len, self.messages)) + 250 * len(self.messages)


class Histories:
    """The last prompts of trajectories, the least recently used ones forgotten beyond `max_bytes`."""

    def __init__(self, max_bytes: int = 64 << 20) -> None:
        self._max_bytes = max_bytes
        self._told: OrderedDict[Hashable, list[Told]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._told)

    def read(self, whose: Hashable, text: bytes, model: str | None) -> Told:
        """The prompt that the JSON text of a list of messages says.

        Raises:
            ValueError: it is none. (A `JSONDecodeError` is one.)
            AttributeError, TypeError: it cannot be read as chat messages.
        """
        for told in self._told.get(whose, ()):
            if not told.text or not goes_on_from(told.begun, model) or not text.startswith(told.text):
                continue
            more = text[len(told.text) :].lstrip()
            if more[:1] == b",":  # where an element ended before, the list goes on
                return self._keep(whose, told, self._more(told, b"[" + more[1:], text))
            if more.rstrip() == b"]":
                return self._keep(whose, told, told)
        return self._keep(whose, None, _read(text, model))

    def told(self, whose: Hashable, messages: Sequence[Message], model: str | None) -> Told:
        """The prompt of these messages, which are in canonical form."""
        texts = tuple(map(orjson.dumps, messages))
        whose = whose or texts[:2]
        for told in self._told.get(whose, ()):
            count = len(told.messages)
            if goes_on_from(told.begun, model) and texts[:count] == told.messages:
                more = Told((*told.messages, *map(trimmed, texts[count:])), gone_on(told.begun, messages[count:]))
                return self._keep(whose, told, more)
        return self._keep(whose, None, Told(tuple(map(trimmed, texts)), begun(messages, model)))

    def _more(self, told: Told, rest: bytes, text: bytes) -> Told:
        messages = _listed(rest)
        if not messages:
            raise ValueError("is no JSON: a comma before its end")
        own = canonical_messages(messages)
        return Told((*told.messages, *map(kept, own)), gone_on(told.begun, own), _open(text))

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


def _read(text: bytes, model: str | None) -> Told:
    own = canonical_messages(_listed(text))
    return Told(tuple(map(kept, own)), begun(own, model), _open(text) if own else b"")


def _open(text: bytes) -> bytes:
    """The text of a list without the bracket that ends it."""
    return text.rstrip()[:-1].rstrip()


def _listed(text: bytes) -> list[Message]:
    value = json_of(text)
    if not isinstance(value, list) or set(map(type, value)) - {dict}:
        raise ValueError("is no list of objects")
    return value
