"""The function that `--with module:function` names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stepwell.errors import SettingsError


def loaded(spec: str) -> Callable[[dict[str, Any]], object]:
    """Import it; modules of the current folder come first.

    Raises:
        SettingsError: there is no such module or function, or importing the module fails.
    """
    module, _, name = spec.partition(":")
    if not module or not name:
        raise SettingsError(f"--with {spec}: give a module and a function in it, as module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # whatever the user's module does when it is imported
        raise SettingsError(f"--with {spec}: cannot import {module}: {type(error).__name__}: {error}") from error
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise SettingsError(f"--with {spec}: there is no function {name} in {module}")
    function: Callable[[dict[str, Any]], object] = found
    return function
