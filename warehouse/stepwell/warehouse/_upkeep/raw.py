"""Raw calls that were kept long enough. What is quarantined stays: it may be read by a later version."""

from __future__ import annotations

from datetime import UTC, datetime

from stepwell.warehouse._tables.again import again
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.table import guarded


def expire(exchanges: LedgerTable, before: float, *, dry_run: bool = False) -> int:
    """Delete the raw calls that were recorded before a moment (seconds since the epoch); how many, or how many there are.

    Their bytes go when the table is compacted and its old versions are removed.

    Raises:
        StoreError: the store failed, or others changed the same fragments each time.
    """
    moment = datetime.fromtimestamp(before, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    old = f"ledger IS NULL AND reason IS NULL AND created_at < TIMESTAMP '{moment}'"
    exchanges.refresh()
    count: int = guarded(exchanges.uri, exchanges.dataset.count_rows, old)
    if count and not dry_run:
        again(exchanges, lambda: guarded(exchanges.uri, exchanges.dataset.delete, old))
    return count
