"""The processes that are killed: what each of them does until then."""

from __future__ import annotations

import logging
import os
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from tests.soak._said import entries
from tests.stores import Place

from stepwell.errors import StoreError
from stepwell.spool import Spool, read_cursor
from stepwell.warehouse import IngestConfig, run_ingest

_BATCH = 3


@dataclass(frozen=True)
class Pace:
    """Seconds between one thing and the next: short, so that a round is short."""

    beat: float
    patience: float
    """Of the lease."""
    interval: float
    """Of ingest."""
    maintenance: float


def pace_of(place: Place) -> Pace:
    """In a bucket each thing is some requests, which are slower."""
    return Pace(0.4, 2.0, 0.3, 1.5) if "://" in place.uri else Pace(0.15, 0.9, 0.05, 0.3)


def produce(folder: Path, name: str, pause: float) -> None:
    """Append steps for ever, and write down each number whose record is durable. One that was not written down is submitted again."""
    spool = Spool(folder / f"{name}.db", wait=10.0)
    written = os.open(acknowledged(folder, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    number, trimmed = len(numbers(folder, name)), 0.0
    while True:
        batch = range(number, number + _BATCH)
        spool.append([entry for one in batch for entry in entries(name, one)])
        os.write(written, b"".join(b"%d\n" % one for one in batch))
        number += _BATCH
        if time.monotonic() - trimmed > 0.5:
            trimmed = time.monotonic()
            spool.trim(read_cursor(folder, spool.producer))
        time.sleep(pause)


def acknowledged(folder: Path, name: str) -> Path:
    """Where a producer writes down what it was told to be kept."""
    return folder / f"{name}.acknowledged"


def numbers(folder: Path, name: str) -> list[int]:
    """What it wrote down so far."""
    path = acknowledged(folder, name)
    return [int(line) for line in path.read_bytes().split()] if path.exists() else []


def ingest(data: Path, place: Place) -> None:
    """`stepwell ingest`, with a lease that is over soon."""
    logging.basicConfig(filename=data / "ingest.log", level=logging.INFO, format="%(asctime)s %(process)d %(message)s")
    pace = pace_of(place)
    config = IngestConfig(interval=pace.interval, idle=0.02, drain=60.0, lock_wait=30.0, keep_versions=120.0)
    run_ingest(
        config,
        data=data,
        warehouse=place.uri,
        storage_options=place.options,
        ready=lambda _: None,
        beat=pace.beat,
        patience=pace.patience,
    )


def maintain(data: Path, place: Place) -> None:
    """`stepwell maintain`, again and again."""
    logging.basicConfig(
        filename=data / "maintain.log", level=logging.INFO, format="%(asctime)s %(process)d %(message)s"
    )
    while True:
        try:
            place.open(create=False).maintain(keep=timedelta(seconds=120))
        except StoreError as error:
            logging.getLogger(__name__).warning("%s", error)
        time.sleep(pace_of(place).maintenance)
