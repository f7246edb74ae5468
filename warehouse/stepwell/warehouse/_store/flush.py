"""Flushes: what one writer wants committed together, and the inbox in which it announces them.

A flush is a range of records of each spool, come to rows, written as fragments of the tables. Its announcement is one object; until it
is committed and removed, or refused and removed, it is the only thing that knows of the fragments.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
from lance.fragment import FragmentMetadata

from stepwell.errors import StoreError
from stepwell.warehouse._store.objects import Listed, Objects
from stepwell.warehouse._tables.schema import FACTS, SCHEMA_VERSION

_log = logging.getLogger(__name__)

FOLDER = "_inbox"
FORMAT = 1
_AT_ONCE = 8
"""Announcements fetched at the same time."""

Ranges = dict[str, tuple[int, int]]
"""By producer: its records above the first number, up to the second one."""


@dataclass(frozen=True, slots=True)
class Flush:
    """One announcement."""

    writer: str
    number: int
    """The writer's own count: flushes of one writer are committed in this order."""
    ranges: Ranges
    fragments: Mapping[str, list[str]]
    """By table, the fragments that are written and not committed, as Lance describes them (JSON)."""
    needs: Mapping[str, int] = field(default_factory=dict)
    """By producer, up to which record everything must be committed before: what the writer's earlier flushes hold."""
    submitted: Mapping[str, list[str]] = field(default_factory=dict)
    """By table, ids that somebody else may have submitted as well."""
    checked: Mapping[str, int] = field(default_factory=dict)
    """By table, the version in which those ids were not."""
    schema: int = 0
    at: float = 0.0
    """When it was written, in seconds since the epoch, by the writer's clock."""

    @property
    def key(self) -> str:
        """The name of its object."""
        return f"{FOLDER}/{self.writer}/{self.number:012d}"

    def encoded(self) -> bytes:
        """As bytes."""
        return orjson.dumps({"format": FORMAT, **asdict(self)})


def decoded(key: str, data: bytes) -> Flush:
    """What `Flush.encoded` gave.

    Raises:
        StoreError: it is damaged, or of a newer version.
    """
    try:
        fields: dict[str, Any] = orjson.loads(data)
        layout = fields.pop("format")
        if layout <= FORMAT:
            ranges = {producer: (int(after), int(upto)) for producer, (after, upto) in fields.pop("ranges").items()}
            return _sound(key, Flush(ranges=ranges, **fields))
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise StoreError(f"the announcement {key} cannot be read: {error}") from error
    raise StoreError(f"the announcement {key} has layout {layout}, this version reads up to {FORMAT}: upgrade Stepwell")


def _sound(key: str, flush: Flush) -> Flush:
    """The flush, when a commit can be made of it: one that cannot would keep everybody else's from being committed."""
    if flush.key != key:
        raise ValueError(f"it says that it is {flush.key}")
    if not flush.ranges or any(not 0 <= after < upto for after, upto in flush.ranges.values()):
        raise ValueError("its ranges of records are none")
    if flush.schema > SCHEMA_VERSION:
        raise ValueError(f"it is of schema {flush.schema}, this version knows {SCHEMA_VERSION}: upgrade Stepwell")
    if not flush.fragments.keys() <= {spec.name for spec in FACTS}:
        raise ValueError(f"it is of the tables {', '.join(sorted(flush.fragments))}")
    for fragment in (one for listed in flush.fragments.values() for one in listed):
        FragmentMetadata.from_json(fragment)
    return flush


def held(marks: Mapping[str, int], ranges: Ranges) -> bool | None:
    """Whether a table of these marks has the records of `ranges`; None when it has some of them."""
    if all(marks.get(producer, 0) >= upto for producer, (_, upto) in ranges.items()):
        return True
    return False if all(marks.get(producer, 0) <= after for producer, (after, _) in ranges.items()) else None


class Inbox:
    """Announcements of all writers of a warehouse."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._unreadable: set[str] = set()

    def announce(self, flush: Flush) -> None:
        """Put it where the committer looks. Announcing the same one again changes nothing.

        Raises:
            StoreError: the store failed, or another flush has that number.
        """
        if not self._objects.create(flush.key, flush.encoded()):
            raise StoreError(f"there is another flush {flush.key}; does another process use the same writer's id?")

    def listed(self, writer: str | None = None) -> list[Listed]:
        """The names of what waits, of one writer or of all, each writer's in order; the tag changes when one is announced anew."""
        return self._objects.listed(FOLDER if writer is None else f"{FOLDER}/{writer}")

    def keys(self, writer: str | None = None) -> list[str]:
        """The names alone."""
        return [key for key, _ in self.listed(writer)]

    def read(self, keys: Iterable[str]) -> list[Flush]:
        """The announcements of these names, in this order, without those that were removed meanwhile or cannot be read.

        What cannot be read stays where it is: a newer version may know what to do with it.
        """
        wanted = list(keys)
        with ThreadPoolExecutor(min(_AT_ONCE, max(len(wanted), 1))) as pool:
            found = list(pool.map(self._objects.get, wanted))
        flushes = []
        for key, data in zip(wanted, found, strict=True):
            try:
                flushes += [decoded(key, data)] if data is not None else []
            except StoreError as error:
                if key not in self._unreadable:
                    _log.error("%s; that writer's flushes wait", error)
                self._unreadable.add(key)
        return flushes

    def remove(self, keys: Iterable[str]) -> None:
        """Those of these names are committed, or refused."""
        self._delete(keys)

    def discard(self, table: str, flushes: Iterable[Flush]) -> None:
        """Delete the files that these flushes have written for `table`. Only of such as nobody can commit any more."""
        listed = (one for flush in flushes for one in flush.fragments.get(table, ()))
        self._delete(f"{table}.lance/data/{file['path']}" for one in listed for file in orjson.loads(one)["files"])

    def _delete(self, keys: Iterable[str]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._objects.delete, [[key] for key in keys]))
