"""Keeping tables quick and small: many commits become few fragments, and versions nobody reads any more go.

Between rounds of the one committer it never meets a commit of its own. Cleaning spares what is younger than an hour, which is
longer than any reader holds on to a version, unless the caller knows that nobody reads.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from datetime import timedelta

from stepwell.errors import StoreError
from stepwell.warehouse._ledger import LedgerTable

_log = logging.getLogger(__name__)

MANY_FRAGMENTS = 100
KEPT = timedelta(hours=1)


def maintain(tables: Iterable[LedgerTable], *, fragments: int = MANY_FRAGMENTS, keep: timedelta = KEPT) -> int:
    """Compact the tables of at least so many fragments and remove their versions older than `keep`; how many that were."""
    worked = 0
    for table in tables:
        try:
            table.refresh()  # the tables of datasets are written by others
            if len(table.dataset.get_fragments()) < fragments:
                continue
            _compact(table, keep)
        except (OSError, RuntimeError, ValueError, StoreError) as error:
            _log.warning("compacting %s failed, and is tried again later: %s", table.uri, error)
        else:
            worked += 1
    return worked


def _compact(table: LedgerTable, keep: timedelta) -> None:
    table.dataset.optimize.compact_files(compaction_mode="try_binary_copy")
    table.dataset.cleanup_old_versions(older_than=keep, error_if_tagged_old_versions=False)
    table.refresh()
