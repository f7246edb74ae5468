"""Packages that the reader imports only where they are needed."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from stepwell.errors import MissingExtra


def imported(module: str, missing: Callable[[str], MissingExtra]) -> Any:
    """The module. Raises what `missing` makes of its package's name where that is not installed."""
    package = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != package:
            raise
        raise missing(package) from error
