"""Changing a table that others change as well: again, each time on its newest version, until one change lands."""

from __future__ import annotations

from collections.abc import Callable

from stepwell.errors import CommitConflict, StoreError
from stepwell.warehouse._tables.ledger import LedgerTable

_ATTEMPTS = 20


def is_conflict(error: BaseException) -> bool:
    """Whether Lance says that trying again may do: it has no type of its own for this."""
    return "conflict" in str(error).lower()


def again(table: LedgerTable, change: Callable[[], object]) -> None:
    """Call `change`, with the table refreshed before and after it, until nobody came between.

    Raises:
        StoreError: the store failed, or others came first every time.
    """
    for _ in range(_ATTEMPTS):
        table.refresh()
        try:
            change()
        except CommitConflict:
            continue
        except StoreError as error:
            if not is_conflict(error):
                raise
        else:
            table.refresh()
            return
    raise StoreError(f"could not change {table.uri}: others changed it at each of {_ATTEMPTS} attempts")
