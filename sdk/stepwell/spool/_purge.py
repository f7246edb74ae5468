"""Asking a producer to make its spool anew, so that what was dropped from it is nowhere on the disk any more.

Only the producer writes its spool, so whoever wants it purged leaves a note beside it: an empty file whose name has the number up to which
everything is to be gone. The producer removes the notes that it has read when that is done; one that is left meanwhile is another file.
A producer that is dead is stood in for.
"""

from __future__ import annotations

from pathlib import Path

from stepwell.errors import SpoolError
from stepwell.spool._reader import SpoolReader
from stepwell.spool._spool import Spool

_SUFFIX = ".purge"


def ask_purge(path: Path) -> None:
    """Ask the producer of the spool at `path` to make it anew once everything that it holds now is dropped.

    Raises:
        SpoolError: the spool cannot be read, or the note not be written.
    """
    with SpoolReader(path) as reader:
        mark = reader.last()
    note = path.with_name(f"{path.stem}.{mark}{_SUFFIX}")
    try:
        note.touch()
    except OSError as error:
        raise SpoolError(f"cannot write {note}: {error}") from error


def purge_asked(path: Path) -> bool:
    """Whether the spool at `path` is still to be made anew."""
    return bool(_notes(path))


def serve_purge(spool: Spool) -> None:
    """Do what was asked of this spool, if anything was, and if it can be done by now.

    Raises:
        SpoolError: the disk or the database failed.
    """
    notes = _notes(spool.path)
    if notes and spool.purge(max(notes)):
        for note in notes.values():
            note.unlink(missing_ok=True)


def _notes(path: Path) -> dict[int, Path]:
    """By number."""
    start, found = f"{path.stem}.", path.parent.glob(f"*{_SUFFIX}")
    notes = {one.name[len(start) : -len(_SUFFIX)]: one for one in found if one.name.startswith(start)}
    return {int(number): note for number, note in notes.items() if number.isdigit()}


def purge_dead(path: Path, mark: int) -> None:
    """Serve the note of a spool whose producer is gone; `mark`: up to where everything is in the warehouse.

    Raises:
        SpoolError: the producer is alive after all, or the disk or the database failed.
    """
    with Spool(path) as spool:
        while spool.trim(mark):
            pass
        serve_purge(spool)
