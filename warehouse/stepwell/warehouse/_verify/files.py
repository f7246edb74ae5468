"""Whether a table's files are there, as long as they were written, and readable; and what nothing refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import lance
import orjson
import pyarrow as pa

from stepwell.errors import StoreError
from stepwell.warehouse._store.flush import Flush
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.table import first_line
from stepwell.warehouse._verify.report import Report, TableReport

_RESTORE = "copy it back from a backup, or see docs/operations.md, “A damaged file”"
_UNREFERENCED = 0.05
"""The part of a table's bytes that nothing may refer to before it is a fault."""
_LITTLE = 1 << 20
_UNVERIFIED = 8 * 24 * 3600.0
"""Seconds after which clean-up should have removed what nothing refers to: it waits for seven days."""
_BATCH = 1024
_BROKEN = (OSError, RuntimeError, ValueError)
"""What Lance raises where a file is not what it should be."""


class Sound:
    """A table, and those of its fragments that could be read so far."""

    def __init__(self, table: LedgerTable, report: Report) -> None:
        self.table, self._report = table, report
        self.dataset: lance.LanceDataset = table.dataset
        self.fragments: list[lance.LanceFragment] = list(self.dataset.get_fragments())
        self.complete = True
        """Whether that is all of them."""
        self._lost = set[str]()

    def batches(self, columns: list[str] | None, filter: str | None = None) -> Iterator[pa.RecordBatch]:
        """Rows of the readable fragments. One that turns out to be damaged is told, and is left out from then on."""
        for fragment in list(self.fragments):
            try:
                yield from fragment.to_batches(columns=columns, filter=filter, batch_size=_BATCH)
            except _BROKEN as error:
                self.damaged(fragment, first_line(error))

    def damaged(self, fragment: lance.LanceFragment, why: str) -> None:
        """Leave this one out."""
        self.fragments.remove(fragment)
        self.complete = False
        self._lost |= _paths(fragment)
        names = ", ".join(sorted(_paths(fragment)))
        what = f"the file {names} with {fragment.physical_rows} rows cannot be read: {why}"
        self._report.bad(self.table.uri, what, _RESTORE)

    def outdated(self) -> bool:
        """Whether what could not be read belongs to the newest version no more: it went while it was looked at, and is no damage.

        Raises:
            StoreError: the store failed.
        """
        if not self._lost:
            return False
        self.table.refresh()
        used = set[str]().union(*(_paths(fragment) for fragment in self.table.dataset.get_fragments()))
        return not self._lost <= used


def check_files(sound: Sound, flushes: Iterable[Flush], report: Report, now: float) -> None:
    """Presence and length of every file that any version refers to; then the bytes that none refers to."""
    dataset, name = sound.dataset, sound.table.spec.name
    there = {row["path"]: row for batch in dataset.all_files() for row in batch.to_pylist()}
    said = report.tables[name] = TableReport(
        fragments=len(sound.fragments), bytes=sum(_size(row) for row in there.values())
    )
    used = _used(sound, report, said)
    if used is None:
        return
    newest = _check_newest(sound, there)
    for path in sorted(_still(sound, used - there.keys() - newest)):
        report.bad(
            sound.table.uri,
            f"the file {path} of an older version is not there",
            "that version cannot be read, and nothing else needs it; if its removal was interrupted, `stepwell maintain` goes on with it",
        )
    announced = _announced(flushes, name)
    said.bytes_referenced = sum(
        _size(row) for path, row in there.items() if path in used or path.startswith(("_versions/", "_refs/"))
    )
    said.bytes_announced = sum(_size(there[path]) for path in announced & there.keys() - used)
    _check_orphans(sound, {path: row for path, row in there.items() if path not in used | announced}, said, report, now)


def _still(sound: Sound, missing: set[str]) -> set[str]:
    """Those that are missing now, too, and that some version still refers to: versions come and go while files are listed."""
    if not missing:
        return missing
    sound.table.refresh()
    dataset = sound.table.dataset
    try:
        missing = missing.difference(*(batch["path"].to_pylist() for batch in dataset.all_files()))
        return missing & set[str]().union(*(batch["path"].to_pylist() for batch in dataset.tracked_files()))
    except _BROKEN:  # nobody can tell
        return missing


def _used(sound: Sound, report: Report, said: TableReport) -> set[str] | None:
    """The paths of the files of all versions; None where a manifest is damaged."""
    paths, versions = set[str](), set[int]()
    try:
        for batch in sound.dataset.tracked_files():
            paths.update(batch["path"].to_pylist())
            versions.update(batch["version"].to_pylist())
    except _BROKEN as error:
        what = (
            f"an older version cannot be read, so that unused files cannot be told from used ones: {first_line(error)}"
        )
        report.bad(sound.table.uri, what, "`stepwell maintain` removes old versions in time; take nothing away by hand")
        return None
    said.versions = len(versions)
    return paths


def _check_newest(sound: Sound, there: dict[str, Any]) -> set[str]:
    """The data files of the newest version, each as long as it was written; their paths."""
    seen = set[str]()
    for fragment in list(sound.fragments):
        for file in fragment.data_files():
            path, wanted = f"data/{file.path}", file.file_size_bytes
            seen.add(path)
            if path not in there:
                sound.damaged(fragment, "it is not there")
            elif wanted and _size(there[path]) != wanted:
                sound.damaged(fragment, f"it has {_size(there[path])} of {wanted} bytes")
            else:
                continue
            break
    return seen


def _check_orphans(sound: Sound, unused: dict[str, Any], said: TableReport, report: Report, now: float) -> None:
    left = {path: row for path, row in unused.items() if not path.startswith(("_versions/", "_refs/"))}
    size = sum(_size(row) for row in left.values())
    if size <= max(said.bytes * _UNREFERENCED, _LITTLE):
        return
    old = [path for path, row in left.items() if now - _at(row) > _UNVERIFIED]
    what = f"{size} of {said.bytes} bytes, in {len(left)} files, belong to no version"
    if old:
        report.bad(
            sound.table.uri, f"{what}, {len(old)} of them for more than a week", "run `stepwell maintain`", sorted(old)
        )
    else:
        report.note(
            sound.table.uri,
            f"{what}: from interrupted work",
            "`stepwell maintain` removes them when they are a week old",
            sorted(left),
        )


def check_contents(sound: Sound) -> None:
    """Every page of every column."""
    for _ in sound.batches(None):
        pass


def tables_of(opened: Iterable[tuple[str, Any]], report: Report) -> Iterator[Sound]:
    """The tables that can be opened; the others are told. `opened`: names, and what opens each."""
    for name, make in opened:
        try:
            yield Sound(make(), report)
        except StoreError as error:
            report.bad(name, str(error), "the other tables are checked all the same; copy this one back from a backup")


def _paths(fragment: lance.LanceFragment) -> set[str]:
    return {f"data/{file.path}" for file in fragment.data_files()}


def _announced(flushes: Iterable[Flush], name: str) -> set[str]:
    """The files of fragments that wait for their commit."""
    fragments = [orjson.loads(one) for flush in flushes for one in flush.fragments.get(name, ())]
    return {f"data/{file['path']}" for fragment in fragments for file in fragment["files"]}


def _size(row: Any) -> int:
    return int(row["size_bytes"])


def _at(row: Any) -> float:
    at: datetime = row["last_modified"]
    return at.astimezone(UTC).timestamp()
