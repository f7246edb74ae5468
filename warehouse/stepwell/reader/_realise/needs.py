"""What realising needs and may meet: the packages of the extra `tokenizers`, and steps that cannot be realised."""

from __future__ import annotations

from typing import Any

from stepwell.errors import MissingExtra
from stepwell.reader._packages import imported


class Refused(ValueError):
    """A step cannot be realised; the text says why, in the same words for every step that it holds for."""


def needed(module: str) -> Any:
    """The module. Raises MissingExtra where its package is not installed."""
    return imported(module, lambda package: MissingExtra(package, "tokenizers"))
