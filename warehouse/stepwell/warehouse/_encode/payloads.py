"""Large parts of messages, and large lists of tools, by what they are: stored once, however many steps hold them.

In the stored text of a step the JSON string `"@<hash>"` stands where the part, or the whole list of tools, was. Neither is ever a string
in canonical form, so nothing else can be taken for one.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import orjson
import pyarrow as pa

from stepwell.warehouse._tables.schema import PAYLOADS

THRESHOLD = 2048
"""Bytes of JSON above which a part is stored apart."""

Lookup = Callable[[Collection[str]], Mapping[str, bytes]]
"""From payload ids to their JSON; those that are not there are left out. It reads many at once."""

_REMEMBERED = 500_000
_FRESH = 3 * 24 * 3600.0
"""Seconds for which a payload that was seen is sure to be there: what nothing refers to is swept after 7 days at the earliest."""


class Payload(NamedTuple):
    """`payload_id` is the BLAKE2b hash of `data`, 32 hex digits; `data` is JSON."""

    payload_id: str
    data: bytes


def outsourced(message: bytes) -> tuple[bytes, list[Payload]]:
    """A message's JSON with its large parts taken out, and those."""
    if len(message) <= THRESHOLD:
        return message, []
    said, found = orjson.loads(message), list[Payload]()
    for place, part in enumerate(said["content"]):
        data = orjson.dumps(part)
        if len(data) > THRESHOLD:
            found.append(_payload(data))
            said["content"][place] = f"@{found[-1].payload_id}"
    return (orjson.dumps(said), found) if found else (message, found)


def outsourced_tools(tools: bytes) -> tuple[bytes, list[Payload]]:
    """A list of tools as it is, or the name of what it became."""
    if len(tools) <= THRESHOLD:
        return tools, []
    payload = _payload(tools)
    return b'"@%b"' % payload.payload_id.encode(), [payload]


def resolved(message: Mapping[str, Any], payloads: Mapping[str, bytes]) -> str:
    """The whole JSON text of a stored message.

    Raises:
        KeyError: its argument is the hash of a payload that is not among `payloads`.
    """
    content = message.get("content")
    if not isinstance(content, list) or not any(isinstance(part, str) for part in content):
        return orjson.dumps(message).decode()
    parts = [orjson.Fragment(payloads[part[1:]]) if isinstance(part, str) else part for part in content]
    return orjson.dumps({**message, "content": parts}).decode()


def resolved_tools(tools: str, payloads: Mapping[str, bytes]) -> str:
    """The whole list of tools. Raises KeyError as `resolved` does."""
    return payloads[tools[2:-1]].decode() if tools.startswith('"@') else tools


class PayloadMemory:
    """What this process knows to be stored: what it has put, or met as stored, within three days.

    `now`: seconds since the epoch.
    """

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._seen: OrderedDict[str, float] = OrderedDict()

    def lacks(self, payload_id: str) -> bool:
        """Whether it is to be put (again). From now on it counts as put."""
        now = self._now()
        known = self._seen.get(payload_id)
        fresh = known is not None and now - known < _FRESH
        if not fresh:
            self._seen[payload_id] = now
            self._seen.move_to_end(payload_id)
            if len(self._seen) > _REMEMBERED:
                self._seen.popitem(last=False)
        return not fresh

    def forget(self) -> None:
        """A round did not commit: what it put may not be there."""
        self._seen.clear()

    def rows(self, brought: Iterable[tuple[Sequence[Payload], str, int]]) -> pa.Table:
        """Rows of `payloads` for what is not stored yet; each comes with the producer and the number of the record that brought it."""
        fresh = [
            (payload, producer, sequence)
            for payloads, producer, sequence in brought
            for payload in payloads
            if self.lacks(payload.payload_id)
        ]
        at = datetime.fromtimestamp(self._now(), UTC)
        columns: dict[str, list[Any]] = {
            "payload_id": [payload.payload_id for payload, _, _ in fresh],
            "size": [len(payload.data) for payload, _, _ in fresh],
            "data": [payload.data for payload, _, _ in fresh],
            "created_at": [at] * len(fresh),
            "producer": [producer for _, producer, _ in fresh],
            "sequence": [sequence for _, _, sequence in fresh],
            "ledger": [None] * len(fresh),
        }
        arrays = [pa.array(columns[field.name], field.type) for field in PAYLOADS.schema]
        return pa.Table.from_arrays(arrays, schema=PAYLOADS.schema)


def _payload(data: bytes) -> Payload:
    return Payload(hashlib.blake2b(data, digest_size=16).hexdigest(), data)
