"""How every producer that spools on this machine is doing, as figures that are added up and looked at one by one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stepwell.errors import SpoolError, StoreError
from stepwell.gateway._warehouse import LazyWarehouse
from stepwell.spool import SpoolReader, held, read_cursor

__all__ = ["Producer", "as_json", "ingest_runs", "producers", "totals"]

_KINDS = ("proxy", "gateway", "import", "score")


@dataclass(frozen=True, slots=True)
class Producer:
    """One spool."""

    name: str
    kind: str
    """`proxy`, `gateway`, `import`, `score`, or `other`; `unreadable` where nothing can be said of it."""
    producer: str | None
    alive: bool
    """Whether a process has it open."""
    accepted: int = 0
    committed: int = 0
    lag: int = 0
    """Records that are not known to be in the warehouse."""
    waited_s: float = 0.0
    """How long the oldest of them has waited."""
    lost: int = 0
    """What it could not keep."""
    bytes: int = 0
    """On disk."""
    last_at: datetime | None = None
    """When the newest record came that is still there."""


def producers(folder: Path, warehouse: LazyWarehouse) -> list[Producer]:
    """Every spool in the folder, by file name. Blocks for the disk.

    How far each is committed, the warehouse says; where that cannot be asked, what ingest told the producers, which is a little behind.
    """
    try:
        marks = warehouse.marks()
    except StoreError:
        marks = {}
    return [_looked_at(path, folder, marks) for path in sorted(folder.glob("*.db"))]


def totals(found: list[Producer]) -> dict[str, Any]:
    """Of all of them together."""
    sums = {
        name: sum(getattr(one, name) for one in found) for name in ("accepted", "committed", "lag", "lost", "bytes")
    }
    return {
        "producers": len(found),
        "alive": sum(one.alive for one in found),
        "unreadable": sum(one.kind == "unreadable" for one in found),
        "waited_s": max((one.waited_s for one in found), default=0.0),
        **sums,
    }


def as_json(one: Producer) -> dict[str, Any]:
    """As it is shown."""
    return asdict(one)


def ingest_runs(folder: Path) -> bool:
    """Whether an ingest works on the data folder that the spools are in."""
    try:
        return held(folder.parent / "ingest.lock")
    except SpoolError:
        return False


def _looked_at(path: Path, folder: Path, marks: Mapping[str, int]) -> Producer:
    kind = path.stem.split("-")[0]
    kind = kind if kind in _KINDS else "other"
    try:
        with closing(SpoolReader(path)) as reader:
            last = reader.last()
            committed = max(read_cursor(folder, reader.producer), marks.get(reader.producer, 0))
            oldest = reader.oldest_ns(committed)
            newest = reader.read(last - 1, limit=1) if last else []
            return Producer(
                *(path.name, kind, reader.producer, reader.alive(), last, committed, max(0, last - committed)),
                waited_s=0.0 if oldest is None else max(0.0, (time.time_ns() - oldest) / 1e9),
                lost=reader.lost(),
                bytes=_size(path),
                last_at=datetime.fromtimestamp(newest[0].at_ns / 1e9, UTC) if newest else None,
            )
    except SpoolError:
        return Producer(path.name, "unreadable", None, alive=False, bytes=_size(path))


def _size(path: Path) -> int:
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
