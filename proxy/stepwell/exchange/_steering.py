"""What a client steers with on a socket (`response.steer`), kept until an answer takes it up.

The server says `response.steer.accepted` when it has queued the input, and commits what is queued for a response in the successor that
it creates by itself, or in the next `response.create` that continues that response; `response.steer.failed` gives one input back. An
id names a steer from its acceptance on (OpenAI's reference of the Responses API's WebSocket events). Nothing is parsed here: the ids
are looked for as what keys hold, which text inside JSON cannot look like.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_STEERS = 16
"""Steers kept at a time, the newest: a client that only steers must not fill the memory."""
MAX_STEER_BYTES = 4 << 20
"""Of a larger one only what it steers is kept."""

_ID = re.compile(rb'"id"\s*:\s*"([^"\\]{1,256})"')
_STEERS_ID = re.compile(rb'"steer"\s*:\s*\{[^{}]*"id"\s*:\s*"([^"\\]{1,256})"')
_PREVIOUS = re.compile(rb'"previous_response_id"\s*:\s*"([^"\\]{1,256})"')


def continued(frame: bytes) -> bytes:
    """The id of the response that a frame says it continues or steers; empty when it names none."""
    found = _PREVIOUS.search(frame)
    return found[1] if found else b""


@dataclass(slots=True, eq=False)
class _Steer:
    frame: bytes
    target: bytes
    id: bytes = b""
    accepted: bool = False


class Steers:
    """The steers of one socket that no answer has taken up yet, in their order."""

    def __init__(self) -> None:
        self._kept: list[_Steer] = []
        self._acknowledges = False
        """Whether the server says what it accepts; what it has not accepted is then in no successor."""
        self._owed = 0
        """Steers that are not kept any more and may still be answered: they were sent before those that are."""

    def add(self, frame: bytes) -> None:
        """The client steers. Beyond `MAX_STEERS` the oldest is forgotten."""
        target = continued(frame)
        if len(frame) > MAX_STEER_BYTES:
            frame = b'{"type":"response.steer","previous_response_id":"%b"}' % target
        self._kept.append(_Steer(frame, target))
        self._let_go(self._kept[:-MAX_STEERS])

    def accepted(self, frame: bytes) -> None:
        """The server has queued one: the oldest that it has not answered, of those for the response that it names."""
        self._acknowledges = True
        found = _ID.search(frame)
        if (steer := self._unanswered(continued(frame))) is not None:
            steer.accepted, steer.id = True, found[1] if found else b""

    def failed(self, frame: bytes) -> None:
        """The server gives one back: the one of that id, else the oldest that it has not answered."""
        ids = set(_ID.findall(frame))  # of the input's items too, which are nobody's here
        steer = next((steer for steer in self._kept if steer.id in ids), None)
        # An id that nobody here has is that of one taken up or forgotten.
        if steer is None and _STEERS_ID.search(frame) is None:
            steer = self._unanswered(continued(frame))
        if steer is not None:
            self._kept.remove(steer)

    def _unanswered(self, target: bytes) -> _Steer | None:
        if self._owed:
            self._owed -= 1
            return None
        fits = (steer for steer in self._kept if not target or steer.target in (target, b""))
        return next((steer for steer in fits if not steer.accepted), None)

    def settle(self) -> None:
        """An answer has begun or ended: what was sent before its request has been answered, or never will be."""
        self._owed = 0

    def waits(self, previous: bytes) -> bool:
        """Whether a successor of the response `previous` would take something up."""
        return bool(previous) and any(steer.target == previous for steer in self._committable())

    def with_request(self, previous: bytes, *, alone: bool) -> list[bytes]:
        """Take what goes before a request that continues `previous`.

        One that names no response takes what the server has not accepted, if it is `alone`: without an answer in flight that could be
        meant instead. What is accepted waits for who continues the steered response.
        """
        if previous:
            fits = [steer for steer in self._kept if steer.target in (previous, b"")]
        else:
            fits = [steer for steer in self._kept if alone and not steer.accepted]
        return self._take(fits)

    def for_successor(self, previous: bytes, *, alone: bool) -> list[bytes]:
        """Take what an answer that nobody asked for was created for; everything, where it does not say what it continues, or `alone`."""
        ready = self._committable()
        fits = [steer for steer in ready if not previous or steer.target in (previous, b"")]
        return self._take(fits or (ready if alone else []))

    def _committable(self) -> list[_Steer]:
        return [steer for steer in self._kept if steer.accepted or not self._acknowledges]

    def _take(self, steers: list[_Steer]) -> list[bytes]:
        self._let_go(steers)
        return [steer.frame for steer in steers]

    def _let_go(self, steers: list[_Steer]) -> None:
        if steers:
            self._owed += sum(not steer.accepted for steer in steers)
            self._kept = [steer for steer in self._kept if steer not in steers]
