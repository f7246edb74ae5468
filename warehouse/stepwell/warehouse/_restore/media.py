"""Images, audio and files in conversations: which they are, and the messages without their data.

A part that holds one has it whole in its `extra`, megabytes of base64 text as a rule, and `hash` names the decoded bytes. Who wants to
know what was seen, and when, needs the hashes only.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.warehouse._encode.payloads import Lookup

_HELD = frozenset({"image", "audio", "file"})
_MARK = '"type":"(?:image|audio|file|other)"'
_MAYBE = re.compile(_MARK.encode())
_AT_ONCE = 64
"""Payloads that are in memory with their data at any time."""


def without_data(payloads: Lookup) -> Lookup:
    """The same payloads, images, audio and files without their `extra`."""

    def found(payload_ids: Collection[str]) -> dict[str, bytes]:
        ids = list(payload_ids)
        some = (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))
        return {id_: _bare(data) for few in some for id_, data in payloads(few).items()}

    return found


def may_show(texts: Iterable[pa.Array], payloads: Iterable[bytes]) -> bool:
    """Whether there may be anything but text in these stored texts (string) and payloads. Mostly there is not, and one look says so."""
    for some in texts:
        if pc.call_function("any", [_matched(some)]).as_py():
            return True
    return any(_MAYBE.search(data) for data in payloads)


def media_of(conversations: Iterable[tuple[bytes, ...]]) -> Iterator[list[str | None]]:
    """For each conversation (messages as JSON) what it shows beside text, in the order in which it was said.

    `sha256:…` of an image, audio or file; of a part that no dialect knows a name by its JSON; None where only a link is there, behind
    which there may be anything.
    """
    known: dict[bytes, tuple[str | None, ...]] = {}
    for messages in conversations:
        found: list[str | None] = []
        for message in messages:
            if message not in known:
                known[message] = tuple(_shown(orjson.loads(message)["content"])) if _MAYBE.search(message) else ()
            found += known[message]
        yield found


def _matched(texts: pa.Array) -> pa.Array:
    return pc.call_function("match_substring_regex", [texts], pc.MatchSubstringOptions(_MARK))


def _shown(parts: Iterable[dict[str, Any]]) -> Iterator[str | None]:
    for part in parts:
        if part["type"] in _HELD:
            yield part.get("hash")
        elif part["type"] == "tool_result":
            yield from _shown(part["content"])
        elif part["type"] == "other":
            text = orjson.dumps(part, option=orjson.OPT_SORT_KEYS)
            yield None if b"://" in text else f"other:{hashlib.blake2b(text, digest_size=16).hexdigest()}"


def _bare(data: bytes) -> bytes:
    if not _MAYBE.search(data):
        return data
    part = orjson.loads(data)
    if not isinstance(part, dict):  # tools, which may speak of such types
        return data
    return orjson.dumps(_stripped(part))


def _stripped(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] in _HELD:
        return {key: value for key, value in part.items() if key != "extra"}
    if part["type"] == "tool_result":
        return {**part, "content": [_stripped(inner) for inner in part["content"]]}
    return part
