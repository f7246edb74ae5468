"""How far ingest has come: one small file beside the spools, written by ingest, read by producers.

It is a hint about what may be dropped, never the truth about what is committed: that is the warehouse's ledger, which ingest
reads at its start. A missing or damaged file only means that nothing is dropped yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

_NAME = "committed.json"


def write_cursor(folder: Path, marks: Mapping[str, int]) -> None:
    """Say that everything up to these numbers, by producer, is in the warehouse."""
    path = folder / _NAME
    scratch = path.with_suffix(".tmp")
    text = json.dumps(dict(marks))
    try:
        scratch.write_text(text)
    except OSError:
        # A full disk: this file is what lets producers free it, and its own block is there already. A reader that meets it half
        # written takes it for "nothing yet".
        if not path.exists():
            raise
        path.write_text(text)
    else:
        scratch.replace(path)


def read_cursor(folder: Path, producer: str) -> int:
    """The number up to which `producer` may drop its records (0: nothing)."""
    try:
        marks = json.loads((folder / _NAME).read_bytes())
    except (OSError, ValueError, RecursionError):
        return 0
    mark = marks.get(producer) if isinstance(marks, dict) else None
    return mark if type(mark) is int and mark > 0 else 0
