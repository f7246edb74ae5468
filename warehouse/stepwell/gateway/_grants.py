"""The tokens as a running gateway knows them: read again every other second, so that new and revoked ones count soon."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from stepwell.errors import SettingsError
from stepwell.gateway._tokens import Token, Tokens, parts_of

__all__ = ["FRESH", "Grants"]

_log = logging.getLogger(__name__)

FRESH = 2.0
"""Seconds for which what was read counts."""
_COARSE = 3600.0
"""Seconds to which the time of a token's last use is kept: to tell one that is in use from one that can go takes no more."""


class Grants:
    """For one event loop. What cannot be read leaves what is known in force, and is logged."""

    def __init__(self, tokens: Tokens, *, clock: Callable[[], float] = time.time) -> None:
        self._tokens = tokens
        self._clock = clock
        self._known: dict[str, Token] = {}
        self._used: dict[str, float] = {}
        self._read_at: float | None = None
        self._first = asyncio.Lock()

    async def find(self, given: str) -> Token | None:
        """The token, where it is good now."""
        if (parts := parts_of(given)) is None:
            return None
        await self._refresh()
        now, token = self._clock(), self._known.get(parts[0])
        if token is None or not token.fits(parts[1], now):
            return None
        if now - (token.used_at or 0.0) >= _COARSE:
            self._used.setdefault(token.id, now - now % _COARSE)
        return token

    async def _refresh(self) -> None:
        if self._read_at is not None and time.monotonic() - self._read_at < FRESH:
            return
        if self._read_at is None:
            async with self._first:  # nobody is turned away because another request reads just now
                if self._read_at is None:
                    self._known = await asyncio.to_thread(self._read)
                    self._read_at = time.monotonic()
        else:
            self._read_at = time.monotonic()  # others go on with what is known
            self._known = await asyncio.to_thread(self._read)

    def _read(self) -> dict[str, Token]:
        try:
            if used := dict(self._used):
                self._tokens.used(used)
                for id_ in used:
                    self._used.pop(id_, None)
        except SettingsError as error:
            _log.warning("when tokens were used is not noted: %s", error)
        try:
            return {token.id: token for token in self._tokens.all()}
        except SettingsError as error:
            _log.warning("the tokens known so far stay in force: %s", error)
            return self._known
