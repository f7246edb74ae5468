"""Who is alive: a lock that dies with its process.

SQLite's own file lock on a companion database, since it is in the standard library, works on every platform, and is
released by the kernel when the process ends, however it ends.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


class ProcessLock:
    """Held by one process at a time; `acquire` answers at once unless told to wait."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None

    def acquire(self, wait: float = 0.0) -> bool:
        """True when the lock is now ours, False when another process holds it after `wait` seconds."""
        connection = sqlite3.connect(self.path, timeout=wait, isolation_level=None, check_same_thread=False)
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                return False
            raise
        self._connection = connection
        return True

    def release(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def held(path: Path) -> bool:
    """Whether some process holds the lock at `path`. A missing file is held by nobody."""
    if not path.exists():
        return False
    with closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, timeout=0, isolation_level=None)) as connection:
        try:
            # A shared lock is enough to meet an exclusive one, and does not get in a starting producer's way for long.
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                return True
            raise
    return False
