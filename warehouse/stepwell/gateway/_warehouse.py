"""What the gateway needs of a warehouse, and one that is opened when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from stepwell.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["LazyWarehouse", "OpenWarehouse", "WarehouseView", "as_view"]


@runtime_checkable
class WarehouseView(Protocol):
    """The reading side of `stepwell.warehouse.Warehouse`, at the newest committed state. Every call may block."""

    def query(self, sql: str) -> pa.Table:
        """Read-only SQL over the views steps, events, trajectories, groups, datasets, quarantine."""
        ...

    def marks(self) -> Mapping[str, int]:
        """Each producer's highest committed record number."""
        ...

    def version(self) -> int:
        """The number of the newest commit; 0 before the first."""
        ...


OpenWarehouse = Callable[[], WarehouseView]


class LazyWarehouse:
    """Opens at first use and again at the next one when that failed: the gateway takes submissions without any warehouse.

    One call at a time: a warehouse object is not for several threads at once.
    """

    def __init__(self, open_: OpenWarehouse) -> None:
        self._open = open_
        self._view: WarehouseView | None = None
        self._lock = threading.Lock()

    def query(self, sql: str) -> pa.Table:
        """Raises StoreError when the warehouse cannot be opened or read."""
        with self._lock:
            return self._opened().query(sql)

    def marks(self) -> Mapping[str, int]:
        """Raises StoreError when the warehouse cannot be opened or read."""
        with self._lock:
            return self._opened().marks()

    def version(self) -> int:
        """Raises StoreError when the warehouse cannot be opened or read."""
        with self._lock:
            return self._opened().version()

    def _opened(self) -> WarehouseView:
        if self._view is None:
            try:
                self._view = self._open()
            except (OSError, ValueError) as error:
                raise StoreError(f"the warehouse cannot be opened: {error}") from error
        return self._view


def as_view(warehouse: WarehouseView | OpenWarehouse) -> LazyWarehouse:
    """Either kind of argument of `create_app`, serialised."""
    if isinstance(warehouse, LazyWarehouse):
        return warehouse
    if isinstance(warehouse, WarehouseView):
        return LazyWarehouse(lambda: warehouse)
    return LazyWarehouse(warehouse)
