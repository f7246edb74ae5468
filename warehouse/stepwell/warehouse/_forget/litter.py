"""Files of no version: what flushes left that were refused or never announced, and what interrupted work left.

One that lies there may be about to be committed by somebody. So only those are looked at that were there before the last tombstones, or
were announced by a writer that did not know of them: no commit takes these any more. And only when the rows they may have been made of
are deleted, with which a compaction that is under way conflicts.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from lance.file import LanceFileReader

from stepwell.warehouse._forget.tables import Ids, Purged
from stepwell.warehouse._store.flush import Flush
from stepwell.warehouse._store.objects import Objects
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.table import guarded
from stepwell.warehouse._upkeep.beside import UNFINISHED

_log = logging.getLogger(__name__)

_NAMING = ("step_id", "trajectory_id", "event_id", "target_id", "exchange_id", "payload_id", "payload_ids")
_QUOTED = re.compile(rb"'([^']*)'")


@dataclass(slots=True)
class Found:
    """Files that have some of it."""

    keys: list[str] = field(default_factory=list)
    payloads: set[str] = field(default_factory=set)
    """What their rows refer to."""


class Litter:
    """The files that may be looked at."""

    def __init__(self, tables: Mapping[str, LedgerTable], objects: Objects, options: Mapping[str, str]) -> None:
        self._tables, self._objects, self._options = tables, objects, dict(options)
        self._old: set[str] = set()

    def look(self) -> None:
        """What is there now, before something is buried."""
        for name in self._tables:
            self._old |= {key for key, _ in self._objects.listed(f"{name}.lance/data")}

    def add(self, flushes: Iterable[Flush]) -> None:
        """What is announced by writers that did not know of it."""
        for flush in flushes:
            for name, fragments in flush.fragments.items():
                files = [file for one in fragments for file in orjson.loads(one)["files"]]
                self._old |= {f"{name}.lance/data/{file['path']}" for file in files}

    def find(self, name: str, ids: Ids, said: Purged) -> Found:
        """Those of one table that have some of these rows; what cannot be read is told in `said`.

        Raises:
            StoreError: the store failed.
        """
        table, found = self._tables[name], Found()
        for path, written in _unused(table).items():
            key = f"{name}.lance/{path}"
            stale = time.time() - written > UNFINISHED
            if path.startswith("data/") and key in self._old:
                self._data(f"{table.uri}/{path}", key, ids, found, said, stale)
            elif path.startswith("_transactions/") and self._names(key, ids):
                found.keys.append(key)  # of a change that others came before: it says what was to be deleted
            elif path.startswith("_indices/"):
                # Whether one has some of it cannot be told, nor whether somebody is still making it.
                (found.keys if stale else said.unreadable).append(key)
        return found

    def remove(self, found: Found, said: Purged) -> None:
        """Remove them."""
        self._objects.delete(found.keys)
        said.litter += found.keys

    def _data(self, uri: str, key: str, ids: Ids, found: Found, said: Purged, stale: bool) -> None:
        try:
            rows = self._rows(uri)
        except (OSError, ValueError, RuntimeError) as error:
            _log.warning("%s is of no version, and cannot be read: %s", uri, error)
            # Half a file: of a write that was killed, or is under way.
            (found.keys if stale else said.unreadable).append(key)
            return
        having = [row for row in rows if any(row.get(column) in values for column, values in ids.items())]
        if having:
            found.keys.append(key)
            found.payloads |= {id_ for row in having for id_ in row.get("payload_ids") or ()}

    def _rows(self, uri: str) -> list[dict[str, Any]]:
        reader = LanceFileReader(uri, storage_options=self._options)
        names = [name for name in reader.metadata().schema.names if name in _NAMING]
        reader = LanceFileReader(uri, storage_options=self._options, columns=names)
        rows: list[dict[str, Any]] = reader.read_all().to_table().to_pylist()
        return rows

    def _names(self, key: str, ids: Ids) -> bool:
        quoted = {text.decode(errors="replace") for text in _QUOTED.findall(self._objects.get(key) or b"")}
        return any(not quoted.isdisjoint(values) for values in ids.values())


def _unused(table: LedgerTable) -> dict[str, float]:
    """The paths of the files that no version refers to, with the time when each was written (seconds since the epoch).

    Without empty ones, which a write leaves that died before its first byte: they hold nothing, and Lance panics over them.
    """

    def listed() -> dict[str, float]:
        table.refresh()
        rows = [row for batch in table.dataset.all_files() for row in batch.to_pylist()]
        there = {row["path"]: row["last_modified"] for row in rows if row["size_bytes"]}
        table.refresh()  # afterwards: what was committed meanwhile is referred to
        used = {path for batch in table.dataset.tracked_files() for path in batch["path"].to_pylist()}
        return {path: _seconds(at) for path, at in there.items() if path not in used}

    return guarded(table.uri, listed)


def _seconds(at: datetime) -> float:
    return at.astimezone(UTC).timestamp()
