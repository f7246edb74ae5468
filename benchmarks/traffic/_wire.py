"""How one API words the conversation of `_conversation`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from benchmarks.traffic._conversation import Json


class Wire(Protocol):
    """One API. A streamed answer is `opening`, any number of `said`, perhaps `called`, and `closing`."""

    name: str
    """As `stepwell.exchange` names the dialect."""
    path: str
    streamed_type: str
    """The content type of a streamed answer."""

    def request(self, stream: bool) -> Json: ...

    def plain(self) -> bytes: ...

    def opening(self) -> bytes: ...

    def said(self, place: int, text: str) -> bytes:
        """One delta of text, with everything that a server sends along."""
        ...

    def lean(self, text: str) -> bytes:
        """The smallest delta of text that the API allows."""
        ...

    def called(self, pieces: Iterable[str]) -> bytes:
        """A call of a tool, its arguments in these pieces; nothing where the API has no tools."""
        ...

    def closing(self, deltas: int) -> bytes: ...
