"""Packages of trainers, imported only where one of their types is asked for."""

from __future__ import annotations

from typing import Any

from stepwell.errors import MissingExtra
from stepwell.reader._packages import imported


class MissingTrainer(MissingExtra):
    """A trainer's package belongs to no extra of ours: it is there where it trains."""

    def __init__(self, package: str, what: str) -> None:
        ImportError.__init__(
            self,
            f"the package {package!r} is missing, and {what} was asked for; call this where the trainer is installed",
        )
        self.package, self.extra = package, ""


def needed(module: str, what: str) -> Any:
    """The module. Raises MissingExtra, saying what it was needed for, where its package is not installed."""
    return imported(module, lambda package: MissingTrainer(package, what))
