"""`stepwell flush`: wait until everything accepted so far is in the warehouse."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Annotated

import typer

from stepwell.cli import _options as options
from stepwell.errors import DeliveryError, SettingsError, StoreError

_POLL_SECONDS = 0.1


def flush(
    timeout: Annotated[float, typer.Option("--timeout", min=0, metavar="SECONDS", help="Give up after so long")] = 30.0,
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
) -> None:
    """Wait until everything accepted so far is committed.

    What proxy and gateway have in their spools when it starts is in the warehouse when it returns, so that a query or a dataset
    sees it. Ingest must be running. Exits with 1 when the time is up, saying who lags.
    """
    from stepwell.cli._settings import load_settings
    from stepwell.spool import marks

    settings = load_settings(config, data=data, warehouse=warehouse)
    if not settings.data.is_dir():
        raise SettingsError(
            f"there is no data folder {settings.data}; start with `stepwell up`, or name another with --data"
        )
    target = {producer: number for producer, number in marks(settings.spools).items() if number > 0}
    if target:
        wait_committed(target, committed_in(settings.warehouse_uri, settings.store.storage_options()), timeout=timeout)


def wait_committed(target: Mapping[str, int], committed: Callable[[], Mapping[str, int]], *, timeout: float) -> None:
    """Return when `committed()` has reached every producer's number in `target`. A store that fails meanwhile is asked again.

    Raises:
        DeliveryError: it had not after `timeout` seconds; says how many records of whom are missing, and what the store said.
    """
    deadline = time.monotonic() + timeout
    while True:
        now, trouble = _ask(committed)
        lag = {producer: number - now.get(producer, 0) for producer, number in target.items()}
        late = {producer: behind for producer, behind in lag.items() if behind > 0}
        if not late:
            return
        if time.monotonic() >= deadline:
            who = ", ".join(f"{behind} of {producer}" for producer, behind in sorted(late.items()))
            why = trouble or "is ingest running (`stepwell up`)?"
            raise DeliveryError(f"not committed after {timeout:g} s: {who}; {why}")
        time.sleep(_POLL_SECONDS)


def _ask(committed: Callable[[], Mapping[str, int]]) -> tuple[Mapping[str, int], str]:
    try:
        return committed(), ""
    except StoreError as error:
        return {}, str(error)


def committed_in(uri: str, storage_options: dict[str, str]) -> Callable[[], Mapping[str, int]]:
    """The warehouse's marks, now. It is opened when it is there: ingest makes it."""
    from stepwell.warehouse import Warehouse

    opened: list[Warehouse] = []

    def committed() -> Mapping[str, int]:
        if not opened:
            opened.append(Warehouse.open(uri, storage_options=storage_options, create=False))
        return opened[0].marks()

    return committed
