"""A chat message in the two forms that it is worked with, made at once for what most are: a role and a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from stepwell.exchange._canonical import Message, compared
from stepwell.exchange._chat.messages import canonical_message

_HEADS = {
    role: (b'{"role":"%b","content":[{"type":"text","text":' % role.encode(), b'["%b",[["text",' % said.encode())
    for role, said in {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}.items()
}
"""By role, how the JSON of a message of one text begins, and how what is compared of it."""
_BILLING = "x-anthropic-billing-header:"


def written(message: Mapping[str, Any]) -> tuple[Message, bytes, bytes]:
    """The message, its JSON text in canonical form, and what is compared of it (see `compared`).

    The message is in canonical form, too, or as it came where that is a role and a text: one whose content is a string.

    Raises:
        ValueError, AttributeError, TypeError: it is no chat message.
    """
    if type(message) is dict and len(message) == 2 and type(text := message.get("content")) is str and text:
        heads = _HEADS.get(role) if type(role := message.get("role")) is str else None
        # Of what begins or ends like this, `compared` leaves something out.
        if heads is not None and "</think>" not in text and not text.startswith(_BILLING):
            said = orjson.dumps(text)
            return message, b"".join((heads[0], said, b"}]}")), b"".join((heads[1], said, b"]]]"))
    made = canonical_message(message)
    return made, bytes(memoryview(orjson.dumps(made))), compared(made)  # without the room that orjson leaves behind
