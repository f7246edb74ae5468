"""Whether rows fit each other: keys, marks, bases, payloads, commits, datasets.

Their key columns are brought together in a database file of its own, so that the memory it takes is bounded, however many there are.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import duckdb
import pyarrow as pa

from stepwell.warehouse._datasets.forgotten import NOTED
from stepwell.warehouse._tables.ledger import Marks
from stepwell.warehouse._tables.schema import TableSpec
from stepwell.warehouse._verify.files import Sound
from stepwell.warehouse._verify.report import SHOWN, Report

_MEMORY = "512MB"

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "steps": ("trajectory_id", "base_id", "base_depth", "payload_ids", "content_hash"),
    "commits": ("commit", "after"),
    "datasets": ("name", "version", "fingerprint", "lineage"),
    "dataset_rows": ("dataset_id", "step_id", "content_hash"),
}
"""What is looked at beside each table's key, producer, sequence and ledger."""

_BACKUP = "copy the warehouse back from a backup, or delete these steps with `stepwell forget`"


class _Check(NamedTuple):
    """`sql` gives the ids of what is wrong; `what` is said with their number before it."""

    where: str
    needs: tuple[str, ...]
    sql: str
    what: str
    do: str
    wrong: bool = True


_CHECKS = (
    _Check(
        "steps",
        ("steps",),
        "SELECT s.key FROM steps s ANTI JOIN steps b ON s.base_id = b.key WHERE s.base_id IS NOT NULL",
        "steps are stored as differences to steps that are not there",
        _BACKUP,
    ),
    _Check(
        "steps",
        ("steps",),
        "SELECT s.key FROM steps s JOIN steps b ON s.base_id = b.key "
        "WHERE b.trajectory_id IS DISTINCT FROM s.trajectory_id OR b.base_depth >= s.base_depth",
        "steps are stored as differences to steps of another trajectory, or in a circle",
        _BACKUP,
    ),
    _Check(
        "steps",
        ("steps",),
        "SELECT s.key FROM steps s JOIN steps b ON s.base_id = b.key WHERE s.visible AND NOT b.visible",
        "committed steps are stored as differences to steps that are not committed",
        "let ingest of that producer run: it commits them",
    ),
    _Check(
        "steps",
        ("steps", "payloads"),
        "SELECT key FROM (SELECT key, unnest(payload_ids) AS payload FROM steps) s ANTI JOIN payloads p ON s.payload = p.key",
        "references of steps to payloads that are not there",
        "those steps' texts cannot be read, their tokens can; copy the payloads back from a backup",
    ),
    _Check(
        "dataset_rows",
        ("datasets", "dataset_rows", "steps"),
        "SELECT d.name || '@' || d.version || ': ' || r.step_id FROM dataset_rows r JOIN datasets d ON r.dataset_id = d.key "
        "ANTI JOIN steps s ON r.step_id = s.key WHERE r.step_id IS NOT NULL AND d.fingerprint IS NOT NULL "
        f"AND json_extract(d.lineage, '$.{NOTED}') IS NULL",
        "steps of datasets are not there",
        "these datasets can only be read as incomplete; copy the steps back from a backup",
    ),
    _Check(
        "dataset_rows",
        ("datasets", "dataset_rows", "steps"),
        "SELECT d.name || '@' || d.version || ': ' || r.step_id FROM dataset_rows r JOIN datasets d ON r.dataset_id = d.key "
        "JOIN steps s ON r.step_id = s.key WHERE s.content_hash IS DISTINCT FROM r.content_hash AND d.fingerprint IS NOT NULL",
        "steps of datasets have another content than was frozen",
        "these datasets do not read the same any more; copy the steps back from a backup",
    ),
    _Check(
        "commits",
        ("commits",),
        "SELECT key FROM (SELECT key, sequence, after, commit, coalesce(lag(sequence) OVER w, 0) AS reached, "
        "coalesce(lag(commit) OVER w, 0) AS before FROM commits WHERE ledger IS NULL "
        "WINDOW w AS (PARTITION BY producer ORDER BY sequence)) "
        "WHERE after <> reached OR sequence <= after OR commit <= before",
        "commits do not go on where the one before them ended",
        "versions of the warehouse at or after them cannot be trusted; copy `commits` back from a backup",
    ),
    _Check(
        "dataset_rows",
        ("datasets", "dataset_rows"),
        "SELECT DISTINCT r.dataset_id FROM dataset_rows r ANTI JOIN (SELECT key FROM datasets WHERE fingerprint IS NOT NULL) d "
        "ON r.dataset_id = d.key WHERE r.ledger IS NULL",
        "datasets have rows and are not registered: their creation, or their deletion, was cut short or is under way",
        "`stepwell maintain` removes them when they are a week old",
        wrong=False,
    ),
)


def check_rows(tables: Mapping[str, Sound], marks: Marks, report: Report, scratch: Path) -> None:
    """All of it, over what can be read. `marks`: the newest ones; `scratch`: an empty folder.

    Where a file is damaged, what refers to its rows is told, too: that is how far the damage reaches.
    """
    with duckdb.connect(scratch / "keys.db") as db:
        db.execute(f"SET memory_limit = '{_MEMORY}'")
        db.execute(f"SET temp_directory = '{scratch / 'spill'}'".replace("\\", "/"))
        db.register("_marks", _as_table(marks))
        for name, sound in tables.items():
            _load(db, name, sound)
            _check_keys(db, sound, report)
            _check_marks(db, sound, report)
            _count(db, name, report)
        for check in _CHECKS:
            if all(name in tables for name in check.needs):
                _tell(db, check, report)


def _load(db: duckdb.DuckDBPyConnection, name: str, sound: Sound) -> None:
    """A table of this name: `key`, the columns that are looked at, and whether the row is part of the newest version."""
    spec: TableSpec = sound.table.spec
    columns = [spec.key, *COLUMNS.get(name, ()), "producer", "sequence", "ledger"]
    schema = pa.schema([spec.schema.field(column) for column in columns])
    batches = (batch.select(columns).cast(schema) for batch in sound.batches(columns))
    reader = pa.RecordBatchReader.from_batches(schema, batches)
    db.register("_rows", reader)
    others = ", ".join(f"r.{column}" for column in columns[1:])
    db.execute(
        f"CREATE TABLE {name} AS SELECT r.{spec.key} AS key, {others}, "
        "r.ledger IS NULL AND (r.producer IS NULL OR r.sequence <= coalesce(m.mark, 0)) AS visible "
        "FROM _rows r LEFT JOIN _marks m ON r.producer = m.producer"
    )
    db.unregister("_rows")


def _check_keys(db: duckdb.DuckDBPyConnection, sound: Sound, report: Report) -> None:
    name, uri = sound.table.spec.name, sound.table.uri
    ledgers = _number(db, f"SELECT count(*) FROM {name} WHERE ledger IS NOT NULL")
    if ledgers != 1 and sound.complete:
        report.bad(
            uri,
            f"it has {ledgers} ledger rows instead of one",
            "copy the table back from a backup before ingest goes on",
        )
    twice = f"SELECT key FROM {name} GROUP BY key HAVING count(*) > 1"
    if name == "payloads":  # writers that do not know of each other put the same
        _tell(
            db,
            _Check(uri, (), twice, "payloads are there more than once", "`stepwell maintain` leaves one", False),
            report,
        )
    else:
        _tell(db, _Check(uri, (), twice, "keys are there more than once", _BACKUP), report)


def _check_marks(db: duckdb.DuckDBPyConnection, sound: Sound, report: Report) -> None:
    """No row is above what its table's ledger says, which would be committed a second time."""
    name, uri = sound.table.spec.name, sound.table.uri
    if not _number(db, f"SELECT count(*) FROM {name} WHERE ledger IS NOT NULL"):
        return
    db.register("_ledger", _as_table(sound.table.marks()))
    above = (
        f"SELECT key FROM {name} r LEFT JOIN _ledger l ON r.producer = l.producer "
        "WHERE r.ledger IS NULL AND r.producer IS NOT NULL AND r.sequence > coalesce(l.mark, 0)"
    )
    _tell(
        db,
        _Check(
            uri, (), above, "rows are above their table's ledger", "stop ingest, and copy the table back from a backup"
        ),
        report,
    )
    if name == "commits":
        wrong = (
            "SELECT coalesce(l.producer, c.producer) FROM _ledger l FULL JOIN "
            "(SELECT producer, max(sequence) AS mark FROM commits WHERE ledger IS NULL GROUP BY producer) c "
            "ON l.producer = c.producer WHERE l.mark IS DISTINCT FROM c.mark"
        )
        _tell(db, _Check(uri, (), wrong, "producers' marks in the ledger are not those of the rows", _BACKUP), report)
    db.unregister("_ledger")


def _count(db: duckdb.DuckDBPyConnection, name: str, report: Report) -> None:
    said = report.tables[name]
    said.rows = _number(db, f"SELECT count(*) FROM {name} WHERE ledger IS NULL")
    if _number(db, f"SELECT count(*) FROM {name} WHERE producer IS NOT NULL") and name != "commits":
        said.visible = _number(db, f"SELECT count(*) FROM {name} WHERE visible")
        if said.visible < said.rows:
            report.note(
                name, f"{said.rows - said.visible} rows are written and not committed yet", "ingest commits them"
            )


def _tell(db: duckdb.DuckDBPyConnection, check: _Check, report: Report) -> None:
    count = _number(db, f"SELECT count(*) FROM ({check.sql})")
    if count:
        ids = [row[0] for row in db.sql(f"SELECT * FROM ({check.sql}) ORDER BY 1 LIMIT {SHOWN}").fetchall()]
        add = report.bad if check.wrong else report.note
        add(check.where, f"{count} {check.what}, first {ids[0]}", check.do, ids)


def _number(db: duckdb.DuckDBPyConnection, sql: str) -> int:
    [(number,)] = db.sql(sql).fetchall()
    return int(number)


def _as_table(marks: Marks) -> pa.Table:
    return pa.table({"producer": pa.array(marks, pa.string()), "mark": pa.array(marks.values(), pa.int64())})
