"""The warehouse of the settings, for commands that need one to be there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepwell.errors import SettingsError, StoreError

if TYPE_CHECKING:
    from stepwell.cli._settings import Settings
    from stepwell.warehouse import Warehouse


def opened(settings: Settings) -> Warehouse:
    """Open it; it is not made.

    Raises:
        SettingsError: it is not there, or cannot be reached.
    """
    from stepwell.warehouse import Warehouse

    try:
        return Warehouse.open(settings.warehouse_uri, storage_options=settings.store.storage_options(), create=False)
    except StoreError as error:
        raise SettingsError(str(error)) from error
