"""Records out of a folder of spools, parsed."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from stepwell.errors import SpoolError
from stepwell.spool import Record, SpoolReader, adopt
from stepwell.warehouse._parse.histories import Histories
from stepwell.warehouse._parse.raw import Raw
from stepwell.warehouse._parse.records import Parsed, parse_record
from stepwell.warehouse._redact.rules import Redactor
from stepwell.warehouse._store.flush import Ranges
from stepwell.warehouse._tables.ledger import Marks

_log = logging.getLogger(__name__)

MAX_RECORDS = 2000
MAX_BYTES = 64 << 20
"""Records, and bytes of records, in one flush: about."""
_PIECE = 4 << 20
"""Bytes of records that are read before their meaning is made: memory that is used again, and still near the processor."""
MAX_STEPS = 20_000
"""Steps in one flush, about: a record may hold many small ones, and each weighs some kilobytes until it is written."""


@dataclass(slots=True)
class Taken:
    """What was read: its meaning, and where it came from."""

    parsed: Parsed = field(default_factory=Parsed)
    ranges: Ranges = field(default_factory=dict)
    count: int = 0
    size: int = 0

    @property
    def full(self) -> bool:
        """Whether it is a flush's worth."""
        return self.count >= MAX_RECORDS or self.size >= MAX_BYTES or len(self.parsed.drafts) >= MAX_STEPS


class Intake:
    """Reads the spools of a folder. One thread."""

    def __init__(self, folder: Path, redactor: Redactor, raw: Raw | None = None) -> None:
        self._folder = folder
        self._redactor = redactor
        self._raw = raw or Raw()
        self._histories = Histories()
        self._turn = 0

    def read(self, marks: Marks, ends: Mapping[str, Sequence[int]] | None = None) -> Taken:
        """What is above `marks`, a flush's worth. Each time begins with another spool: a busy producer does not starve the rest.

        `ends`: records of these producers that no flush may reach across. As long as there is one before it, a producer is taken alone.
        """
        taken = Taken()
        paths = sorted(self._folder.glob("*.db"))
        self._turn += 1
        for place in range(len(paths)):
            if taken.full:
                break
            try:
                with SpoolReader(paths[(self._turn + place) % len(paths)]) as reader:
                    if self._took_alone(
                        taken, reader, marks.get(reader.producer, 0), (ends or {}).get(reader.producer, ())
                    ):
                        break
            except SpoolError as error:  # that spool's records come later; nothing of it was taken
                _log.warning("%s", error)
        return taken

    def _took_alone(self, taken: Taken, reader: SpoolReader, after: int, ends: Sequence[int]) -> bool:
        """Take what the spool has above `after`; whether nothing else may go with it."""
        end = next((end for end in ends if end > after), None)
        if end is not None and taken.count:
            return False
        if not reader.alive() and reader.orphans():
            adopt(reader.path)  # its calls will get no answer any more: say so
        begun = taken.count
        while not taken.full:
            upto = taken.ranges.get(reader.producer, (after, after))[1]
            records = reader.read(upto, limit=MAX_RECORDS - taken.count, max_bytes=min(_PIECE, MAX_BYTES - taken.size))
            records = [record for record in records if end is None or record.seq <= end]
            if not records:
                break
            self._take(taken, reader, records, after)
        return end is not None and taken.count > begun

    def read_again(self, ranges: Ranges) -> Taken:
        """The records of a flush once more.

        Raises:
            SpoolError: a spool, or some of its records, are not there any more.
        """
        taken = Taken()
        left = dict(ranges)
        unreadable = ""
        for path in sorted(self._folder.glob("*.db")):
            try:
                with SpoolReader(path) as reader:
                    if reader.producer in left:
                        self._take_again(taken, reader, left[reader.producer])
                        del left[reader.producer]
            except SpoolError as error:  # it may be one that has nothing to do with it
                unreadable += f"; {error}"
        if left:
            raise SpoolError(f"records of {', '.join(sorted(left))} are gone from {self._folder}{unreadable}")
        return taken

    def _take_again(self, taken: Taken, reader: SpoolReader, span: tuple[int, int]) -> None:
        after, upto = span
        records = [record for record in reader.read(after, limit=upto - after, max_bytes=1 << 62) if record.seq <= upto]
        if not records or records[-1].seq != upto:
            raise SpoolError(f"{reader.path} does not have its record {upto}")
        self._take(taken, reader, records, after, whole=True)

    def _take(
        self, taken: Taken, reader: SpoolReader, records: Sequence[Record], after: int, *, whole: bool = False
    ) -> None:
        """Take the records, of which the flush has all above `after`: every one (`whole`), or until there is a flush's worth of steps."""
        meant, here = Parsed(), {record.id: record for record in records}
        count = size = 0
        for record in records:
            parse_record(
                record,
                reader.producer,
                lambda id_: here.get(id_) or reader.get(id_),
                meant,
                self._redactor,
                self._histories,
                self._raw,
            )
            count, size = count + 1, size + len(record.head) + len(record.body)
            if not whole and len(taken.parsed.drafts) + len(meant.drafts) >= MAX_STEPS:
                break
        taken.parsed.add(meant)
        taken.ranges[reader.producer] = (after, records[count - 1].seq)
        taken.count += count
        taken.size += size
