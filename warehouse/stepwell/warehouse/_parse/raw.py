"""Raw traffic: which calls are kept as they crossed the wire, beside the steps that were made of them.

They are rows of `exchanges`, as what is quarantined is; what sets them apart is that no reason stands there for not being read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import orjson

from stepwell.spool import Record
from stepwell.warehouse._parse.events import Origin, Row
from stepwell.warehouse._parse.quarantine import quarantined_row
from stepwell.warehouse._redact.records import redacted_quarantine
from stepwell.warehouse._redact.rules import Redactor

Kept = Literal["errors", "all", "none"]
"""Which calls: those of which a step's status is not `ok`, every one, or none, not even the bytes of what could not be read."""

BODIES = ("request_body", "response_body")
NOTE = "note"
"""The field of a response's head that says what is not there, and why."""
_LEFT_OUT = ' (ingest.raw is "none": its bytes are not kept)'


@dataclass(frozen=True, slots=True)
class Raw:
    """What is kept. A body of more than `max_bytes` is left out."""

    kept: Kept = "errors"
    max_bytes: int = 8 << 20

    def wants(self, statuses: Iterable[str]) -> bool:
        """Whether a call is kept whose steps have these statuses."""
        return self.kept == "all" or (self.kept == "errors" and any(status != "ok" for status in statuses))

    def row(self, record: Record, request: Record, origin: Origin, redactor: Redactor) -> Row:
        """The row of a call that was read, as it may be stored: `record` answers `request`."""
        row, notes = quarantined_row(record, request, "", origin), list[str]()
        for name in BODIES:
            if len(row[name] or b"") > self.max_bytes:
                notes.append(f"{name} is left out: {len(row[name])} bytes, more than ingest.raw_max_bytes")
                row[name] = None
        row = redacted_quarantine(redactor, row, failed=False)
        if row["reason"]:
            notes.append(row["reason"].strip(" ()"))
        return row | {"reason": None, "response_head": _noted(row["response_head"], "; ".join(notes))}

    def quarantine(self, row: Row) -> Row:
        """A row of what could not be read, as it is to be stored."""
        if self.kept != "none":
            return row
        return row | dict.fromkeys(BODIES) | {"reason": row["reason"] + _LEFT_OUT}


def _noted(head: str | None, note: str) -> str | None:
    if not note:
        return head
    try:
        fields: Any = orjson.loads(head or b"{}")
    except orjson.JSONDecodeError:  # what a rule left of it
        fields = {}
    return orjson.dumps({**(fields if isinstance(fields, dict) else {}), NOTE: note}).decode()
