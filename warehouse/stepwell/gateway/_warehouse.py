"""What the gateway needs of a warehouse, and some that are opened when they are needed, so that readers do not wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from stepwell.errors import StoreError

if TYPE_CHECKING:
    import pyarrow as pa

    from stepwell.warehouse import Datasets

__all__ = ["LazyWarehouse", "OpenWarehouse", "Place", "WarehouseView", "as_view"]


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


@runtime_checkable
class Whole(Protocol):
    """What a warehouse can do besides, and a view need not: see the methods of these names."""

    def saying(self, text: str, most: int = ...) -> tuple[list[str], bool]: ...

    def forgettings(self) -> int: ...

    def storage(self) -> list[dict[str, Any]]: ...

    @property
    def datasets(self) -> Datasets: ...


OpenWarehouse = Callable[[], WarehouseView]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a warehouse is: an `OpenWarehouse`, and what another process needs to open it, too."""

    uri: str
    storage_options: Mapping[str, str] | None = field(default=None, repr=False)

    def __call__(self) -> WarehouseView:
        from stepwell.warehouse import Warehouse  # at the first read

        return Warehouse.open(self.uri, storage_options=self.storage_options, create=False)


MOST = 4
"""Calls at once, each to a warehouse object of its own: one is opened in milliseconds, and may keep 192 MiB of what it read.
More than `stream` takes, so that clients that catch up on everything leave some for pages."""


class LazyWarehouse:
    """Opens at first use and again at the next one when that failed: the gateway takes submissions without any warehouse.

    Any thread. A warehouse object is not for several threads at once, so each call has one to itself; beyond `most`, calls wait.
    """

    def __init__(self, open_: OpenWarehouse, most: int = MOST) -> None:
        self._open = open_
        self._places = threading.BoundedSemaphore(most)
        self._idle: list[WarehouseView] = []

    def query(self, sql: str) -> pa.Table:
        """Raises StoreError when the warehouse cannot be opened or read."""
        with self._one() as view:
            return view.query(sql)

    def marks(self) -> Mapping[str, int]:
        """Raises StoreError when the warehouse cannot be opened or read."""
        with self._one() as view:
            return view.marks()

    def version(self) -> int:
        """Raises StoreError when the warehouse cannot be opened or read."""
        with self._one() as view:
            return view.version()

    def place(self) -> Place:
        """For another process. Raises StoreError when there is none, or no other process could open it."""
        if isinstance(self._open, Place):
            return self._open
        with self._one() as view:
            uri, options = getattr(view, "uri", None), getattr(view, "storage_options", None)
        if not isinstance(uri, str):
            raise StoreError("this warehouse is in the memory of this process: no other one can work on it")
        return Place(uri, options)

    def forgettings(self) -> int:
        """A number that grows whenever something was taken away. Raises StoreError when the warehouse cannot be opened or read."""
        with self._one() as view:
            return view.forgettings() if isinstance(view, Whole) else 0

    def saying(self, text: str, most: int) -> tuple[list[str], bool]:
        """The steps that say these words, and whether these are all. Raises StoreError, and InvalidRecord where there is no word."""
        with self._one() as view:
            return _whole(view).saying(text, most)

    def storage(self) -> list[dict[str, Any]]:
        """What each table takes. Raises StoreError."""
        with self._one() as view:
            return _whole(view).storage()

    @contextmanager
    def datasets(self) -> Iterator[Datasets]:
        """The datasets, for one thread, and as long as this lasts. Raises StoreError."""
        with self._one() as view:
            yield _whole(view).datasets

    @contextmanager
    def _one(self) -> Iterator[WarehouseView]:
        with self._places:
            view = self._taken()
            try:
                yield view
            finally:
                self._idle.append(view)

    def _taken(self) -> WarehouseView:
        try:
            return self._idle.pop()  # the one that was used last, which remembers most
        except IndexError:  # all are in use
            pass
        try:
            return self._open()
        except (OSError, ValueError) as error:
            raise StoreError(f"the warehouse cannot be opened: {error}") from error


def _whole(view: WarehouseView) -> Whole:
    if not isinstance(view, Whole):
        raise StoreError("this warehouse can be queried only")
    return view


def as_view(warehouse: WarehouseView | OpenWarehouse) -> LazyWarehouse:
    """Either kind of argument of `create_app`. One that is open already is asked one thing at a time."""
    if isinstance(warehouse, LazyWarehouse):
        return warehouse
    if isinstance(warehouse, WarehouseView):
        return LazyWarehouse(lambda: warehouse, most=1)
    return LazyWarehouse(warehouse)
