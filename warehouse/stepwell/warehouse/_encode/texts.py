"""The texts of a step as its row holds them: what is its own, with the large parts stored apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stepwell.warehouse._encode.delta import Delta
from stepwell.warehouse._encode.payloads import THRESHOLD, Payload, outsourced, outsourced_tools
from stepwell.warehouse._parse.draft import Draft


@dataclass(slots=True)  # one per step is made, and frozen it would take three times as long
class Texts:
    """Columns of `steps`, JSON each, and what they refer to."""

    messages: str | None
    response: str | None
    tools: str | None
    payloads: tuple[Payload, ...]

    @property
    def payload_ids(self) -> list[str] | None:
        """What the row refers to, each once."""
        return list(dict.fromkeys(payload.payload_id for payload in self.payloads)) if self.payloads else None


def texts_of(draft: Draft, delta: Delta) -> Texts:
    """What is stored of the step of `draft`, encoded as `delta`."""
    own: Sequence[bytes] = delta.own_messages
    response, tools, found = draft.response, None, list[Payload]()
    if max(map(len, own), default=0) > THRESHOLD or len(response) > THRESHOLD:
        *own, response = [_without(message, found) for message in (*own, response)]
    if delta.tools is not None:
        text, apart = outsourced_tools(delta.tools)
        tools, found = text.decode(), found + apart
    messages = b"[%b]" % b",".join(own) if draft.messages else None
    return Texts(None if messages is None else messages.decode(), response.decode() or None, tools, tuple(found))


def _without(message: bytes, found: list[Payload]) -> bytes:
    text, apart = outsourced(message)
    found += apart
    return text
