"""The texts of a step as its row holds them: what is its own, with the large parts stored apart."""

from __future__ import annotations

from dataclasses import dataclass

from stepwell.warehouse._encode.delta import Delta
from stepwell.warehouse._encode.payloads import Payload, outsourced, outsourced_tools
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
    found: list[Payload] = []
    own: list[bytes] = []
    for message in (*delta.own_messages, draft.response):
        text, apart = outsourced(message)
        own.append(text)
        found += apart
    response = own.pop()
    tools = None
    if delta.tools is not None:
        tools, apart = outsourced_tools(delta.tools)
        found += apart
    return Texts(
        messages=(b"[" + b",".join(own) + b"]").decode() if draft.messages else None,
        response=response.decode() or None,
        tools=None if tools is None else tools.decode(),
        payloads=tuple(found),
    )
