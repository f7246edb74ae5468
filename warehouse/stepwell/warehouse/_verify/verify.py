"""Is a warehouse whole? Reads all of it that can be read, changes nothing, and tells what is wrong, where, and what to do."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path

from stepwell.errors import StoreError
from stepwell.warehouse._store.flush import Flush, Inbox
from stepwell.warehouse._store.objects import objects_at
from stepwell.warehouse._tables.ledger import LedgerTable, Marks
from stepwell.warehouse._tables.schema import TABLES
from stepwell.warehouse._tables.table import FileGone, guarded
from stepwell.warehouse._upkeep.beside import FORGETTING, beside, litter
from stepwell.warehouse._verify.content import check_datasets, check_steps
from stepwell.warehouse._verify.files import Sound, check_contents, check_files, tables_of
from stepwell.warehouse._verify.report import Report
from stepwell.warehouse._verify.rows import check_rows

_ATTEMPTS = 8
"""Looks at a warehouse from which files are removed meanwhile."""


def verify(
    root: str,
    storage_options: Mapping[str, str],
    *,
    deep: bool = False,
    now: Callable[[], float] = time.time,
) -> Report:
    """Check every table under `root`, and what lies beside them. Ingest may go on meanwhile.

    Without `deep`: files, keys, references, ledgers, commits, fingerprints. With it, too: every page of every file, and every step restored
    and compared with the hash of its content.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            report, tables = _verified(root, storage_options, deep, now)
        except FileGone:
            continue
        if not _outdated(tables.values()):
            return report
    return _verified(root, storage_options, deep, now)[0]


def _outdated(tables: Iterable[Sound]) -> bool:
    """Whether files went under this look, as `stepwell forget` and `maintain --keep 0` remove them."""
    try:
        return any(sound.outdated() for sound in tables)
    except StoreError:  # that is told already
        return False


def _verified(
    root: str, storage_options: Mapping[str, str], deep: bool, now: Callable[[], float]
) -> tuple[Report, Mapping[str, Sound]]:
    report = Report(deep)
    flushes = _announced(root, storage_options, report, now())
    # `commits` first: what it calls committed is then sure to be in the tables that are opened after it.
    specs = sorted(TABLES, key=lambda spec: spec.name != "commits")
    opens = [(spec.name, partial(LedgerTable, spec, root, storage_options, create=False)) for spec in specs]
    tables = {sound.table.spec.name: sound for sound in tables_of(opens, report)}
    for sound in tables.values():
        try:
            guarded(sound.table.uri, check_files, sound, flushes, report, now())
        except StoreError as error:
            report.bad(
                sound.table.uri, f"its files cannot be listed: {error}", "is the store reachable, and may we list?"
            )
    if deep:
        for sound in tables.values():
            check_contents(sound)
    with tempfile.TemporaryDirectory(prefix="stepwell-verify-") as scratch:
        check_rows(tables, _marks(tables, report), report, Path(scratch))
    if {"datasets", "dataset_rows"} <= tables.keys():
        check_datasets(tables["datasets"], tables["dataset_rows"], report)
    if deep and {"steps", "payloads"} <= tables.keys():
        check_steps(tables["steps"], tables["payloads"], report)
    return report, tables


def _marks(tables: Mapping[str, Sound], report: Report) -> Marks:
    commits = tables.get("commits")
    if commits is None:
        return {}
    try:
        report.commit = commits.table.number()
        return commits.table.marks()
    except StoreError as error:
        report.bad(commits.table.uri, f"its ledger cannot be read: {error}", "copy the table back from a backup")
        return {}


def _announced(root: str, storage_options: Mapping[str, str], report: Report, now: float) -> list[Flush]:
    """What waits in the inbox, and what else lies beside the tables."""
    try:
        there = beside(root, storage_options)
        inbox = Inbox(objects_at(root, storage_options))
        keys = inbox.keys()
        flushes = inbox.read(keys)
    except StoreError as error:
        report.bad(root, str(error), "is the store reachable, and may we list?")
        return []
    if len(flushes) < len(keys) and (lost := sorted(set(inbox.keys()) - {flush.key for flush in flushes})):
        what = f"{len(lost)} announcements cannot be read, first {lost[0]}"
        report.bad(root, what, "upgrade what commits here, or remove them: their writers announce them anew", lost)
    if any(one.key.startswith(f"{FORGETTING}/") for one in there):
        what = "a `stepwell forget` was interrupted, or is at work: what it is to remove is still there, or half of it"
        report.bad(root, what, "run it again; it finishes what was begun, whatever it is asked for")
    if gone := litter(there, now):
        what = f"{len(gone)} objects were left by interrupted work, first {gone[0].key}"
        report.note(root, what, "`stepwell maintain` removes them", [one.key for one in gone])
    return flushes
