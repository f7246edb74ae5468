"""Figures about spools, and the text format in which Prometheus asks for such (version 0.0.4).

Every process that has a spool, or reads them, tells the same ones under the same names. Labels are producers, never a trajectory.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from stepwell.errors import SpoolError
from stepwell.spool._cursor import read_cursor
from stepwell.spool._folder import readers
from stepwell.spool._reader import SpoolReader

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(slots=True)
class Figure:
    """A metric: what it is called and means, and its samples, each with its labels."""

    name: str
    text: str
    kind: Literal["gauge", "counter"] = "gauge"
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    def add(self, value: float, **labels: str) -> Figure:
        """Another sample."""
        self.samples.append((labels, value))
        return self


def exposition(figures: Iterable[Figure]) -> bytes:
    """What is answered at `/metrics`. The name of a counter ends with `_total`."""
    lines: list[str] = []
    for one in figures:
        lines += [f"# HELP {one.name} {one.text}", f"# TYPE {one.name} {one.kind}"]
        for labels, value in one.samples:
            pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(f"{one.name}{f'{{{pairs}}}' if pairs else ''} {float(value)}")
    return "".join(f"{line}\n" for line in lines).encode()


def spool_figures(folder: Path, only: Path | None = None) -> list[Figure]:
    """How far each spool in `folder` came, what waits in it, and what was lost; or the one spool `only`. Blocks for the disk.

    Raises:
        SpoolError: that one spool cannot be read. Of several, those that cannot are counted.
    """
    last = Figure("stepwell_spool_last_number", "Highest record number on the producer's disk.")
    done = Figure("stepwell_spool_committed_number", "Highest record number known to be in the warehouse.")
    lag = Figure("stepwell_spool_lag_records", "Records that are not known to be in the warehouse.")
    age = Figure("stepwell_spool_oldest_age_seconds", "How long the oldest of them has waited; 0: there is none.")
    lost = Figure("stepwell_spool_lost_total", "Things the producer could not keep.", "counter")
    alive = Figure("stepwell_spool_alive", "Whether the producer runs.")
    broken = Figure("stepwell_spool_unreadable", "Spools that cannot be read.")
    unreadable = 0 if only is not None else len(list(folder.glob("*.db")))
    for reader in readers(folder) if only is None else [SpoolReader(only)]:
        with closing(reader):
            try:
                number, committed = reader.last(), read_cursor(folder, reader.producer)
                oldest, losses, lives = reader.oldest_ns(committed), reader.lost(), reader.alive()
            except SpoolError:
                if only is not None:
                    raise
                continue
        unreadable -= only is None
        waited = 0.0 if oldest is None else max(0.0, (time.time_ns() - oldest) / 1e9)
        for figure, value in (
            (last, number),
            (done, committed),
            (lag, max(0, number - committed)),
            (age, waited),
            (lost, losses),
            (alive, lives),
        ):
            figure.add(value, producer=reader.producer)
    return [last, done, lag, age, lost, alive, broken.add(max(unreadable, 0))]


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
