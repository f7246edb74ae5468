"""The seam between the scripted engine and the APIs it speaks: one small object per dialect, in a `_wire_*` module of its own.

A dialect turns a vendor's request into a conversation in chat's words, for the script, and what was sampled into the vendor's body.
It never decides what is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stepwell.testing._sampling import Sample
from stepwell.testing._script import Delivery
from stepwell.testing._tokenizer import ByteTokenizer

Json = dict[str, Any]
_MOST = 2**31


class Refused(Exception):
    """A request that is answered with an error status and never reaches the script."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Unsayable(Exception):
    """The dialect has no form for what the script answered: arguments that are no JSON, where calls carry objects."""


@dataclass(frozen=True, slots=True)
class Received:
    """A request, as far as a dialect looks at it."""

    body: Json
    path: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    """What the dialect's path pattern found in the path, percent-decoded."""
    query: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conversation:
    """What a request asks, in the words of the chat completions dialect."""

    messages: list[Json]
    tools: Sequence[Json] = ()
    model: str = ""
    stream: bool = False
    n: int = 1
    max_tokens: int | None = None
    prompt: str | None = None
    """The prompt's text, of a dialect without chat; None: the chat template makes it."""
    silent: bool = False
    """Nothing is to be generated: a warm-up."""


@dataclass(frozen=True, slots=True)
class Turn:
    """All that an answer is written from."""

    id: str
    created: int
    """Seconds since 1970."""
    model: str
    received: Received
    conversation: Conversation
    prompt_ids: list[int]
    samples: Sequence[Sample]
    tokenizer: ByteTokenizer
    weight_version: str | None = None

    @property
    def generated(self) -> int:
        """Tokens sampled, of all choices."""
        return sum(len(sample.ids) for sample in self.samples)


@dataclass(frozen=True, slots=True)
class Body:
    """An answer's body: the events of a stream, each by itself, or the whole as one part."""

    parts: Sequence[bytes]
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


class Dialect(Protocol):
    """How one API asks and is answered. One object serves one app, from its event loop only."""

    @property
    def name(self) -> str:
        """As `stepwell.exchange` names it."""
        ...

    @property
    def paths(self) -> Sequence[str]:
        """What the paths of its generations end in (starlette patterns); any prefix may stand before."""
        ...

    @property
    def id_prefix(self) -> str:
        """What its answers' ids begin with."""
        ...

    def read(self, received: Received) -> Conversation:
        """What a request asks. Raises `Refused` for what an engine refuses too."""
        ...

    def whole(self, turn: Turn) -> Body:
        """The plain answer. Raises `Unsayable`."""
        ...

    def stream(self, turn: Turn, delivery: Delivery) -> Body:
        """The streamed answer. Raises `Unsayable`."""
        ...

    def error(self, status: int, message: str) -> Body:
        """An error in the vendor's shape."""
        ...


def count(body: Mapping[str, Any], name: str, most: int = _MOST) -> int | None:
    """A field that counts from 1. Raises `Refused` when it does not."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or not 1 <= value <= most:
        raise Refused(400, f"`{name}` is {value!r}: it must be an integer from 1 to {most}")
    return value


def objects(body: Mapping[str, Any], name: str, key: str = "") -> list[Json]:
    """A field that is a list of objects, each with the text field `key`. Raises `Refused` when it is not."""
    value = body.get(name)
    if isinstance(value, list):
        found: list[Json] = [
            item for item in value if isinstance(item, dict) and (not key or isinstance(item.get(key), str))
        ]
        if len(found) == len(value):
            return found
    raise Refused(400, f"`{name}` must be a list of objects" + (f" with a `{key}`" if key else ""))
