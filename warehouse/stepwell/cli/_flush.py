"""`stepwell flush`: wait until everything accepted so far is in the warehouse."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated

import typer

from stepwell.cli import _options as options
from stepwell.errors import DeliveryError, SettingsError, StoreError

_POLL_SECONDS = 0.1
_LOOK_SECONDS = 1.0
"""Between looks at whether what is late can come at all."""

Marks = Mapping[str, int]
"""Numbers of records by producer."""


def flush(
    timeout: Annotated[float, typer.Option("--timeout", min=0, metavar="SECONDS", help="Give up after so long")] = 30.0,
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
) -> None:
    """Wait until everything accepted so far is committed.

    What proxy and gateway have in their spools when it starts is in the warehouse when it returns, so that a query or a dataset
    sees it. Ingest must be running. Exits with 1 when the time is up, saying who lags, and as soon as all is committed but what lies on
    damaged pages of a spool.
    """
    from stepwell.cli._settings import load_settings
    from stepwell.spool import marks, unreadable

    settings = load_settings(config, data=data, warehouse=warehouse)
    if not settings.data.is_dir():
        raise SettingsError(
            f"there is no data folder {settings.data}; start with `stepwell up`, or name another with --data"
        )
    target = {producer: number for producer, number in marks(settings.spools).items() if number > 0}
    if target:
        committed = committed_in(settings.warehouse_uri, settings.store.storage_options())
        wait_committed(target, committed, timeout=timeout, damaged=partial(unreadable, settings.spools))


def wait_committed(
    target: Marks,
    committed: Callable[[], Marks],
    *,
    timeout: float,
    damaged: Callable[[Marks], Mapping[str, str]] = lambda _: {},
) -> None:
    """Return when `committed()` has reached every producer's number in `target`. A store that fails meanwhile is asked again.

    `damaged` says of which producers nothing above such numbers can be read, and why.

    Raises:
        DeliveryError: it had not after `timeout` seconds; says how many records of whom are missing, and what the store said. Or all is
            there but what is damaged; says what that is.
    """
    deadline = time.monotonic() + timeout
    look = 0.0
    while True:
        now, trouble = _ask(committed)
        lag = {producer: number - now.get(producer, 0) for producer, number in target.items()}
        late = {producer: behind for producer, behind in lag.items() if behind > 0}
        if not late:
            return
        if not trouble and time.monotonic() >= look:
            look = time.monotonic() + _LOOK_SECONDS
            lost = damaged({producer: now.get(producer, 0) for producer in late})
            if late.keys() <= lost.keys():
                raise DeliveryError(f"all is committed but what cannot be read any more: {_told(late, lost)}")
        if time.monotonic() >= deadline:
            who = ", ".join(f"{behind} of {producer}" for producer, behind in sorted(late.items()))
            why = trouble or "is ingest running (`stepwell up`)?"
            raise DeliveryError(f"not committed after {timeout:g} s: {who}; {why}")
        time.sleep(_POLL_SECONDS)


def _told(late: Marks, lost: Mapping[str, str]) -> str:
    return "; ".join(f"{behind} records of {producer} ({lost[producer]})" for producer, behind in sorted(late.items()))


def _ask(committed: Callable[[], Marks]) -> tuple[Marks, str]:
    try:
        return committed(), ""
    except StoreError as error:
        return {}, str(error)


def committed_in(uri: str, storage_options: dict[str, str]) -> Callable[[], Marks]:
    """The warehouse's marks, now. It is opened when it is there: ingest makes it."""
    from stepwell.warehouse import Warehouse

    opened: list[Warehouse] = []

    def committed() -> Mapping[str, int]:
        if not opened:
            opened.append(Warehouse.open(uri, storage_options=storage_options, create=False))
        return opened[0].marks()

    return committed
