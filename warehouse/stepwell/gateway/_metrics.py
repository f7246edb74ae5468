"""What Prometheus is told. Labels are bounded: kinds, outcomes and producers; never a trajectory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, generate_latest

from stepwell.errors import SpoolError
from stepwell.spool import Figure, exposition, held, spool_figures

__all__ = ["Metrics"]


class Metrics:
    """What the gateway counts itself, and what there is to see of everything that runs on its data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.registry = CollectorRegistry()
        self._records = Counter(
            "stepwell_gateway_records",
            "Records submitted, by what became of them.",
            ["kind", "outcome"],
            registry=self.registry,
        )

    def count(self, kind: str, items: Iterable[dict[str, Any]]) -> None:
        """Count the results of one request."""
        for item in items:
            self._records.labels(kind, item["status"]).inc()

    def text(self) -> bytes:
        """The exposition format, version 0.0.4. Reads every spool: blocks for the disk."""
        return generate_latest(self.registry) + exposition([*spool_figures(self._folder), self._ingest()])

    def _ingest(self) -> Figure:
        try:
            runs = held(self._folder.parent / "ingest.lock")
        except SpoolError:
            runs = False
        return Figure("stepwell_ingest_alive", "Whether an ingest works on the data folder.").add(runs)
