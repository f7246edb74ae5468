"""`export_dataset`: an epoch of a `BatchReader` as files with a dataset card."""

from __future__ import annotations

import hashlib
import shutil
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from stepwell.errors import InvalidRecord, StoreError
from stepwell.reader._export.card import Facts, card
from stepwell.reader._export.columns import record_batches
from stepwell.reader._export.files import Format, check_format, write
from stepwell.reader._modes import Merge
from stepwell.reader._plan.report import Plan
from stepwell.reader._read.reader import BatchReader
from stepwell.reader.adapters import step_details

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export wrote."""

    dataset: str
    path: Path
    files: tuple[str, ...]
    """With rows, relative to `path`. A Lance dataset counts as one."""
    rows: int
    steps: int
    """That train."""
    tokens: int
    """Of all rows."""
    terms: int
    """Loss terms."""
    not_here: dict[str, int]
    """Steps of the dataset that are not in the export, by reason."""


def export_dataset(
    warehouse: Warehouse,
    dataset: str,
    version: int | None,
    path: Path,
    *,
    to: Format = "parquet",
    merge: Merge = "trajectory",
    advantage: Any = None,
    groups_per_step: int = 64,
    **settings: Any,
) -> Exported:
    """Write what a `BatchReader` gives of a dataset to a new folder that `datasets.load_dataset` reads.

    The folder has `README.md`, the dataset card, and `data/`. Groups are in the dataset's order. A row is a pack (`merge="tree"`) or a
    sequence; an optimizer step is held in memory at a time, so `groups_per_step` bounds it. The folder is there when it is whole.

    Args:
        path: The folder to make; it may be there when it is empty.
        advantage: As for `BatchReader`, but nothing by default: then rewards are in the rows, and no trajectory needs one.
        settings: Others of `BatchReader`, such as `loss`, `max_tokens`, `on_error`, `old_logprobs`, `realise`.

    Raises:
        InvalidRecord: as `BatchReader`; no such format.
        StoreError: there is no such dataset, a step of it is gone, the folder is not empty, or a file cannot be written.
    """
    check_format(to)
    found = warehouse.datasets.get(dataset, version)
    with _new_folder(path) as part:
        asked = {"merge": merge, "advantage": advantage, "groups_per_step": groups_per_step, **settings}
        reader = BatchReader(warehouse, dataset=found.name, version=found.version, seed=None, **asked)
        counts = _Counts()
        batches = _rows(warehouse, reader, merge, found.at_commit, counts)
        if (first := next(batches, None)) is None:
            raise InvalidRecord("dataset", f"{found.label}: nothing is left of it to train on")
        files = write(chain([first], batches), first.schema, part, to)
        names = {str(file.relative_to(part)): _sha256(file) for file in files}
        lineage = {
            **warehouse.datasets.lineage(found.name, found.version),
            "fingerprint": found.fingerprint,
            "note": found.note,
        }
        totals, plan = counts.totals, reader.plan()
        not_here = _not_here(plan, counts)
        made = (plan.derived, plan.notes)
        facts = Facts(lineage, asked, merge, to, first.schema, totals, not_here, *made, names)
        (part / "README.md").write_text(card(facts), encoding="utf-8")
    numbers = {name: totals[name] for name in ("rows", "steps", "tokens", "terms")}
    return Exported(found.label, path, tuple(names), **numbers, not_here=not_here)


def _not_here(plan: Plan, counts: _Counts) -> dict[str, int]:
    """Planned ones, those that were found while reading, and those that had nobody left to tell of them."""
    planned = Counter(plan.left_out) + Counter(plan.skipped)
    found = planned + (counts.skipped - planned)  # what batches tell has what was planned in it
    untold = plan.selected - counts.totals["steps"] - found.total()
    return dict(found + Counter({"nothing of their optimizer step could be read": untold}))


@dataclass
class _Counts:
    """What is summed up while rows go by."""

    totals: Counter[str] = field(default_factory=Counter)
    skipped: Counter[str] = field(default_factory=Counter)


def _rows(
    warehouse: Warehouse, reader: BatchReader, merge: Merge, at: int, counts: _Counts
) -> Iterator[pa.RecordBatch]:
    """Everything, an optimizer step at a time, and counted: as many loss terms are written as there are."""
    for batch in reader:
        counts.skipped.update(batch.skipped)
        counts.totals.update(steps=batch.steps.num_rows, terms=batch.occurrences)
        written = 0
        for rows in record_batches(batch, merge, step_details(warehouse, batch, at)):
            written += _terms(rows)
            counts.totals.update(rows=rows.num_rows, tokens=len(rows["input_ids"].flatten()), bytes=rows.nbytes)
            yield rows
        if written != batch.occurrences:
            raise InvalidRecord("weight", f"{batch.occurrences} loss terms became {written} in rows")


def _terms(rows: pa.RecordBatch) -> int:
    if "loss_mask" not in rows.schema.names:
        return len(rows["weight"].flatten())
    return int(np.count_nonzero(rows["loss_mask"].flatten().to_numpy(zero_copy_only=False)))


@contextmanager
def _new_folder(path: Path) -> Iterator[Path]:
    """Where to write what becomes `path` when it is whole."""
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise StoreError(f"{path} is there already: an export makes a new folder; give another, or delete it")
        part.mkdir(parents=True)
        yield part
        part.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {error.filename or path}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _sha256(file: Path) -> str | None:
    """None of a Lance dataset, which is a folder."""
    if file.is_dir():
        return None
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()
