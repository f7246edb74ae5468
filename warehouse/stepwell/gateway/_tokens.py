"""The tokens of an installation: who may do what, kept in `tokens.db` in its folder, which only the user can read.

    stepwell_<id>_<secret>

The id is no secret: it finds the entry, and names the token in lists and logs. Of the secret, 256 random bits, only the SHA-256 is kept;
so many bits need no slow hash. A token is shown once, when it is made. SQLite, because the command line writes while a gateway reads.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar, get_args

from stepwell.errors import SettingsError, StepwellError

__all__ = ["SCOPES", "Scope", "Token", "Tokens", "parts_of"]

Scope = Literal["ingest", "read", "curate", "admin"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

FILE = "tokens.db"
PREFIX = "stepwell_"
_SCHEMA = """CREATE TABLE IF NOT EXISTS tokens (
    id TEXT PRIMARY KEY, digest BLOB NOT NULL, scopes TEXT NOT NULL, project TEXT, note TEXT,
    created_at REAL NOT NULL, expires_at REAL, used_at REAL
) STRICT"""
_COLUMNS = "id, digest, scopes, project, note, created_at, expires_at, used_at"
_PROJECT = re.compile(r"[A-Za-z0-9._-]{1,100}")
_PATIENCE = 5.0
"""Seconds to wait for another process that writes."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token; times are seconds since 1970."""

    id: str
    digest: bytes
    scopes: frozenset[str]
    project: str | None = None
    """What is submitted with it carries this as `metadata.project`."""
    note: str | None = None
    created_at: float = 0.0
    expires_at: float | None = None
    used_at: float | None = None
    """When it was last used, to the hour."""

    def fits(self, secret: str, now: float) -> bool:
        """Whether the token with this secret is good now."""
        right = hmac.compare_digest(self.digest, _digest(secret))
        return right and (self.expires_at is None or now < self.expires_at)


class Tokens:
    """The tokens in the folder `home`. Any thread and process: each call opens the file anew.

    Raises SettingsError where the file cannot be used.
    """

    def __init__(self, home: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = home / FILE
        self._clock = clock

    def create(
        self,
        scopes: Collection[Scope],
        *,
        project: str | None = None,
        note: str | None = None,
        seconds: float | None = None,
    ) -> tuple[str, Token]:
        """A new token, which nobody can show again, and its entry. `seconds`: how long it is good; left out, until it is revoked.

        Raises SettingsError for no scope, and for a project that is no plain name.
        """
        if not scopes or not set(scopes) <= set(SCOPES):
            raise SettingsError(f"a token needs scopes of {', '.join(SCOPES)}")
        if project is not None and not _PROJECT.fullmatch(project):
            raise SettingsError(f"the project {project!r}: 1 to 100 letters, digits, `.`, `_` and `-`")
        id_, secret, now = secrets.token_hex(6), secrets.token_urlsafe(32), self._clock()
        expires = None if seconds is None else now + seconds
        token = Token(id_, _digest(secret), frozenset(scopes), project, note, now, expires)
        values = (id_, token.digest, json.dumps(sorted(scopes)), project, note, now, expires)
        sql = f"INSERT INTO tokens ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, NULL)"
        self._write(lambda db: db.execute(sql, values))
        return f"{PREFIX}{id_}_{secret}", token

    def all(self) -> list[Token]:
        """Every token that was not revoked, oldest first, also those that have expired."""
        if not self.path.exists():
            return []
        with self._open() as db:
            rows = db.execute(f"SELECT {_COLUMNS} FROM tokens ORDER BY created_at, id").fetchall()
        return [Token(row[0], row[1], frozenset(json.loads(row[2])), *row[3:]) for row in rows]

    def live(self) -> list[Token]:
        """Those that are good now."""
        now = self._clock()
        return [token for token in self.all() if token.expires_at is None or now < token.expires_at]

    def revoke(self, id_: str) -> None:
        """Forget a token, by its id. Raises StepwellError where there is none of that id."""
        gone = self.path.exists() and self._write(
            lambda db: db.execute("DELETE FROM tokens WHERE id = ?", (id_,)).rowcount
        )
        if not gone:
            raise StepwellError(f"there is no token {id_}: `stepwell token list` shows their ids")

    def used(self, times: Mapping[str, float]) -> None:
        """Note when tokens were used, by id."""
        values = [(at, id_) for id_, at in times.items()]
        self._write(lambda db: db.executemany("UPDATE tokens SET used_at = ? WHERE id = ?", values))

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._open() as db, db:
            return work(db)

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            if not self.path.exists():
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o600))  # SQLite would take the umask's word
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as db:
                db.execute(_SCHEMA)
                yield db
        except (OSError, sqlite3.Error) as error:
            raise SettingsError(
                f"cannot use the tokens in {self.path}: {error}; set STEPWELL_HOME to a folder you own"
            ) from error


def parts_of(given: str) -> tuple[str, str] | None:
    """The id and the secret of a token; None for what has not its form."""
    id_, _, secret = given.removeprefix(PREFIX).partition("_")
    return (id_, secret) if given.startswith(PREFIX) and secret else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
