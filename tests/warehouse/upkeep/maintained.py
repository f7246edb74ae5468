"""A process that maintains, to be killed."""

from __future__ import annotations

import time
from datetime import timedelta
from functools import partial
from multiprocessing.synchronize import Event
from unittest import mock

from stepwell.warehouse import Warehouse
from stepwell.warehouse._upkeep import maintain
from stepwell.warehouse._upkeep.done import Maintenance
from stepwell.warehouse._upkeep.indices import lacking
from stepwell.warehouse._upkeep.maintain import Maintainer

LATER = 8 * 24 * 3600.0
"""After so many seconds, payloads that nothing refers to go."""


def thorough(warehouse: Warehouse) -> Maintenance:
    """A round that does everything that there is to do, however small the tables are."""
    with mock.patch.object(maintain, "lacking", partial(lacking, worth=1)):
        return Maintainer(
            warehouse.uri,
            warehouse.tables,
            warehouse.storage_options,
            keep=timedelta(0),
            many=2,
            full=True,
            now=lambda: time.time() + LATER,
        ).round()


def run(uri: str, begun: Event) -> None:
    """One round, in a process of its own."""
    warehouse = Warehouse.open(uri)
    begun.set()
    thorough(warehouse)
