"""What Prometheus is told. Labels are bounded: kinds, outcomes and producers; never a trajectory."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from stepwell.spool import read_cursor, readers

__all__ = ["Metrics"]


class Metrics:
    """The gateway's own registry."""

    def __init__(self, folder: Path) -> None:
        self.registry = CollectorRegistry()
        self._records = Counter(
            "stepwell_gateway_records",
            "Records submitted, by what became of them.",
            ["kind", "outcome"],
            registry=self.registry,
        )
        self.registry.register(_Spools(folder))

    def count(self, kind: str, items: Iterable[dict[str, Any]]) -> None:
        """Count the results of one request."""
        for item in items:
            self._records.labels(kind, item["status"]).inc()

    def text(self) -> bytes:
        """The exposition format, version 0.0.4. Reads every spool: blocks for the disk."""
        return generate_latest(self.registry)


class _Spools(Collector):
    """Every producer's queue, looked at when asked."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        def gauge(name: str, text: str) -> GaugeMetricFamily:
            return GaugeMetricFamily(f"stepwell_spool_{name}", text, labels=["producer"])

        last = gauge("last_number", "Highest record number on the producer's disk.")
        done = gauge("committed_number", "Highest record number known to be in the warehouse.")
        lag = gauge("lag_records", "Records waiting to be ingested.")
        age = gauge("oldest_age_seconds", "How long the oldest of them has waited.")
        lost = CounterMetricFamily("stepwell_spool_lost", "Things the producer could not keep.", labels=["producer"])
        for reader in readers(self._folder):
            with closing(reader):
                label = [reader.producer]
                number, committed = reader.last(), read_cursor(self._folder, reader.producer)
                oldest = reader.oldest_ns(committed)
                last.add_metric(label, number)
                done.add_metric(label, committed)
                lag.add_metric(label, max(0, number - committed))
                age.add_metric(label, 0.0 if oldest is None else max(0.0, (time.time_ns() - oldest) / 1e9))
                lost.add_metric(label, reader.lost())
        yield from (last, done, lag, age, lost)
