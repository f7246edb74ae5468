"""What verification finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

SHOWN = 100
"""Most ids that a finding carries; its text has their number."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing: where it is, what it is, and what to do about it."""

    where: str
    what: str
    do: str
    wrong: bool = True
    """False: worth knowing, and no fault."""
    ids: tuple[str, ...] = ()
    """Of what it is true, the first ones."""

    def __str__(self) -> str:
        return f"{'bad ' if self.wrong else 'note'}  {self.where}: {self.what}{f' → {self.do}' if self.do else ''}"


@dataclass(slots=True)
class TableReport:
    """A table in numbers. Bytes are of files: all that are there, those that a version refers to, those announced and not committed."""

    rows: int = 0
    visible: int | None = None
    """Rows that are part of the newest version; None where versions do not apply."""
    fragments: int = 0
    versions: int = 0
    bytes: int = 0
    bytes_referenced: int = 0
    bytes_announced: int = 0


@dataclass(slots=True)
class Report:
    """All that was found, and the numbers."""

    deep: bool
    commit: int = 0
    """The newest commit."""
    tables: dict[str, TableReport] = field(default_factory=dict)
    datasets: int = 0
    steps_read: int = 0
    """Steps that were restored and compared with their content hash."""
    findings: list[Finding] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not any(finding.wrong for finding in self.findings)

    def bad(self, where: str, what: str, do: str, ids: Iterable[str] = ()) -> None:
        """A fault."""
        self.findings.append(Finding(where, what, do, ids=tuple(ids)[:SHOWN]))

    def note(self, where: str, what: str, do: str = "", ids: Iterable[str] = ()) -> None:
        """Something else."""
        self.findings.append(Finding(where, what, do, wrong=False, ids=tuple(ids)[:SHOWN]))
