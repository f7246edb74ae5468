"""What `stepwell doctor` finds in the spools and in the warehouse."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from stepwell.cli._finding import Finding, bad, ok, warn
from stepwell.cli._settings import Settings
from stepwell.errors import MissingExtra, SpoolError, StepwellError
from stepwell.spool import SpoolReader

_LATE_SECONDS = 60.0
_COUNTS = "SELECT (SELECT count(*) FROM steps) AS steps, (SELECT count(*) FROM quarantine) AS quarantined"
_REASONS = "SELECT reason, count(*) AS count FROM quarantine GROUP BY ALL ORDER BY count DESC, reason LIMIT 1"


def store_findings(settings: Settings) -> Iterator[Finding]:
    """The warehouse first: what waits in the spools is told by how far it has come."""
    marks: Mapping[str, int] = {}
    uri = settings.warehouse_uri
    if "://" not in uri and not Path(uri).exists():
        yield warn("warehouse", f"{uri} is not made yet; the first `stepwell up` makes it")
    else:
        try:
            from stepwell.warehouse import Warehouse

            warehouse = Warehouse.open(uri, storage_options=settings.store.storage_options(), create=False)
            marks = warehouse.marks()
            (row,) = warehouse.query(_COUNTS).to_pylist()
            yield ok("warehouse", f"{uri} holds {row['steps']} steps")
            if row["quarantined"]:
                (first,) = warehouse.query(_REASONS).to_pylist()
                yield warn(
                    "quarantine",
                    f"{row['quarantined']} exchanges could not be read; most often ({first['count']}): {first['reason'][:200]}",
                    "`stepwell query 'select exchange_id, reason from quarantine'`",
                )
            else:
                yield ok("quarantine", "empty")
        except MissingExtra as error:
            yield bad("warehouse", str(error))
        except (StepwellError, OSError) as error:
            yield bad(
                "warehouse", f"{uri} cannot be read: {error}", "check `warehouse`, [store] and the store's credentials"
            )
    yield from spools(settings.spools, marks)


def spools(folder: Path, marks: Mapping[str, int]) -> Iterator[Finding]:
    """How many records wait, since when, and how many were never recorded."""
    waiting, lost, oldest = 0, 0, None
    for path in sorted(folder.glob("*.db")):
        try:
            with SpoolReader(path) as reader:
                mark = marks.get(reader.producer, 0)
                # What is committed may be trimmed, or still be there.
                behind = max(reader.last() - mark, 0)
                since = reader.oldest_ns(mark) if behind else None
                lost += reader.lost()
        except SpoolError as error:
            yield bad("spools", str(error), f"if nothing needs it any more, move {path} away")
            continue
        waiting += behind
        oldest = min(oldest or since, since) if since is not None else oldest
    seconds = max(time.time() - oldest / 1e9, 0.0) if oldest else 0.0
    words = f"{waiting} records wait to be ingested" + (f", the oldest for {seconds:.0f} s" if waiting else "")
    if seconds > _LATE_SECONDS:
        yield warn("spools", words, "start `stepwell up`, or see what ingest says in its log")
    else:
        yield ok("spools", words)
    if lost:
        yield warn(
            "losses", f"{lost} calls were lost over time: they went through unrecorded", "the proxy's log said why"
        )
