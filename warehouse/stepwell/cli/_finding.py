"""What `stepwell doctor` finds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warn", "bad"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it is, and what to do about it."""

    check: str
    status: Status
    message: str
    do: str = ""

    def __str__(self) -> str:
        return f"{self.status:<5} {self.check:<12} {self.message}{f' → {self.do}' if self.do else ''}"


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check, "ok", message)


def warn(check: str, message: str, do: str = "") -> Finding:
    """Works, or will, but somebody may miss something."""
    return Finding(check, "warn", message, do)


def bad(check: str, message: str, do: str = "") -> Finding:
    """Broken: nothing is captured, or kept, until it is set right."""
    return Finding(check, "bad", message, do)
