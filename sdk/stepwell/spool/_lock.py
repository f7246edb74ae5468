"""Who is alive: a lock that dies with its process.

SQLite's own file lock on a companion database, since it is in the standard library, works on every platform, and is
released by the kernel when the process ends, however it ends.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from stepwell.errors import SpoolError


class ProcessLock:
    """Held by one process at a time; `acquire` answers at once unless told to wait."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None

    def acquire(self, wait: float = 0.0) -> bool:
        """True when the lock is now ours, False when another process holds it after `wait` seconds.

        Raises SpoolError when the file cannot be made or is no lock.
        """
        try:
            connection = sqlite3.connect(self.path, timeout=wait, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise _unusable(self.path, error) from error
        try:
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.Error as error:
            connection.close()
            if is_busy(error):
                return False
            raise _unusable(self.path, error) from error
        self._connection = connection
        return True

    def release(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def held(path: Path) -> bool:
    """Whether some process holds the lock at `path`. A missing file is held by nobody. Raises SpoolError when it is no lock."""
    if not path.exists():
        return False
    try:
        uri = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)) as connection:
            # A shared lock is enough to meet an exclusive one, and does not get in a starting producer's way for long.
            connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        if is_busy(error):
            return True
        raise _unusable(path, error) from error
    return False


def is_busy(error: BaseException | None) -> bool:
    """Whether SQLite says that somebody else holds the lock."""
    return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY


def _unusable(path: Path, error: sqlite3.Error) -> SpoolError:
    return SpoolError(f"the lock file {path} cannot be used: {error}")
