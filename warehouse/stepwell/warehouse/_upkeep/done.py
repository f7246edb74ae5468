"""What a round of maintenance did, or would do."""

from __future__ import annotations

from dataclasses import dataclass, field

from stepwell.warehouse._upkeep.sweep import Swept
from stepwell.warehouse._upkeep.unregistered import Unregistered


@dataclass(slots=True)
class Tended:
    """What was done to a table, or would be."""

    fragments: int = 0
    """Merged into others."""
    indices: list[str] = field(default_factory=list)
    """Columns whose index was made or extended."""
    versions: int = 0
    """Removed."""
    removed: int = 0
    """Bytes that went with the versions."""
    before: int | None = None
    after: int | None = None
    """Bytes of all its files; None where nobody asked."""
    error: str | None = None
    """Why something was left undone."""


@dataclass(slots=True)
class Maintenance:
    """What one round did, or would do."""

    tables: dict[str, Tended]
    payloads: Swept = field(default_factory=Swept)
    datasets: Unregistered = field(default_factory=Unregistered)
    raw: int = 0
    """Raw calls that were old enough to go."""
    litter: list[str] = field(default_factory=list)
    """Keys of the objects that an interrupted process had left."""
    errors: list[str] = field(default_factory=list)
    """Why something beside the tables was left undone."""
