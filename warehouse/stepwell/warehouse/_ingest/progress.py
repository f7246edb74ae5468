"""How ingest gets on, in figures."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from stepwell.spool import Figure


class Progress:
    """Flushes from their beginning to their commit. Written by one thread, read by any."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun: dict[int, float] = {}
        self._took = 0.0
        self._flushes = 0
        self._records = 0
        self.failures = 0
        """How often the store failed."""

    def begin(self, number: int, records: int = 0) -> None:
        """A flush holds these records from now on, unless that was known."""
        self._begun.setdefault(number, self._clock())
        self._records += records

    def commit(self, numbers: Iterable[int]) -> None:
        """These are committed."""
        for number in numbers:
            self._took = self._clock() - self._begun.pop(number, self._clock())
            self._flushes += 1

    def drop(self) -> None:
        """None of what was begun is to be committed."""
        self._begun.clear()

    def figures(self, *, commits: bool) -> list[Figure]:
        """As metrics; `commits`: this process commits for the warehouse."""
        begun = list(self._begun.values())
        lag = self._clock() - min(begun) if begun else 0.0
        return [
            Figure("stepwell_ingest_records_total", "Records taken from the spools.", "counter").add(self._records),
            Figure("stepwell_ingest_flushes_total", "Flushes that were committed.", "counter").add(self._flushes),
            Figure("stepwell_ingest_flushes_waiting", "Flushes that are begun and not committed.").add(len(begun)),
            Figure("stepwell_ingest_commit_lag_seconds", "For how long the oldest of those has been so.").add(lag),
            Figure("stepwell_ingest_commit_seconds", "How long the last flush took.").add(self._took),
            Figure("stepwell_ingest_store_failures_total", "How often the store failed.", "counter").add(self.failures),
            Figure("stepwell_ingest_committer", "Whether this process commits for the warehouse.").add(commits),
        ]
