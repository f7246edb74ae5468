"""The canonical form of messages, for those who store, link or show them."""

from stepwell.exchange._canonical import (
    Message,
    Part,
    chained_keys,
    compared,
    following_key,
    prefix_keys,
    text_of,
)
from stepwell.exchange._chat.messages import canonical_message, canonical_messages
from stepwell.exchange._chat.written import written

__all__ = [
    "Message",
    "Part",
    "canonical_message",
    "canonical_messages",
    "chained_keys",
    "compared",
    "following_key",
    "prefix_keys",
    "text_of",
    "written",
]
