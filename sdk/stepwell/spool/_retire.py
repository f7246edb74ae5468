"""Removing the spool of a dead producer that has nothing left in it, so that old ones do not pile up.

A later process of that name begins a spool, and with it a producer, of its own. The lock file stays: whoever waits for it holds on to that
very file.
"""

from __future__ import annotations

import time
from pathlib import Path

from stepwell.errors import SpoolError
from stepwell.spool._lock import ProcessLock
from stepwell.spool._purge import purge_asked
from stepwell.spool._reader import SpoolReader

RETIRED_AFTER = 900.0
"""Seconds since the spool was last written to: a process that is only restarted goes on with its own."""
_LOSSES_SHOWN = 7 * 24 * 3600.0
"""Seconds for which a spool stays that counts losses, so that somebody sees them."""


def retire(path: Path, mark: int, *, after: float = RETIRED_AFTER) -> bool:
    """Remove the spool at `path` if its producer is dead and everything in it is at or below number `mark`; whether it is gone.

    `mark`: up to where the producer's records are in the warehouse, and durable there. A spool that was written to less than `after`
    seconds ago stays.

    Raises:
        SpoolError: the spool cannot be read, or its files not be removed.
    """
    if not _is_drained(path, mark, after):
        return False
    lock = ProcessLock(path.with_suffix(".lock"))
    if not lock.acquire():
        return False
    try:
        # Nobody lives here now, but somebody may have until a moment ago.
        if not _is_drained(path, mark, after):
            return False
        # The database first. A log without its database is nothing, but a database without its log is an older state of itself.
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
    except OSError as error:
        raise SpoolError(f"cannot remove the spool {path}: {error}") from error
    finally:
        lock.release()
    return True


def _is_drained(path: Path, mark: int, after: float) -> bool:
    with SpoolReader(path) as reader:
        if reader.last() > mark or reader.orphans() or purge_asked(path):
            return False
        wait = max(after, _LOSSES_SHOWN) if reader.lost() else after
    return time.time() - _written(path) >= wait


def _written(path: Path) -> float:
    """When something was written last (seconds since the epoch). Readers make an empty log anew."""
    try:
        log = path.with_name(f"{path.name}-wal").stat()
        return max(path.stat().st_mtime, log.st_mtime if log.st_size else 0.0)
    except FileNotFoundError:
        return path.stat().st_mtime
