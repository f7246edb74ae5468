"""Keeping tables quick: many small commits become few fragments, and versions nobody reads any more go.

Called by the one committer between rounds, so it never meets a commit of its own. Cleaning spares what is younger than an hour: longer
than any reader holds on to a version.
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


def maintain(tables: Iterable[LedgerTable]) -> int:
    """Compact and clean the tables that need it; how many did."""
    worked = 0
    for table in tables:
        if len(table.dataset.get_fragments()) < MANY_FRAGMENTS:
            continue
        try:
            _compact(table)
        except (OSError, RuntimeError, ValueError, StoreError) as error:
            _log.warning("compacting %s failed, and is tried again later: %s", table.uri, error)
        else:
            worked += 1
    return worked


def _compact(table: LedgerTable) -> None:
    table.dataset.optimize.compact_files(compaction_mode="try_binary_copy")
    table.dataset.cleanup_old_versions(older_than=KEPT, error_if_tagged_old_versions=False)
    table.refresh()
