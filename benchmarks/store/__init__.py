"""The measures of `benchmarks/warehouse.py`, one module each, and what they share: conversations, spools, processes that ingest and read.

A measure takes a `Run` and gives figures by name; those of `Run.details` are told beside them.
"""

from benchmarks.store._append import append_ratio
from benchmarks.store._bytes import growth, per_step
from benchmarks.store._memory import memory, trajectory
from benchmarks.store._rates import exchanges, steps
from benchmarks.store._reading import reading
from benchmarks.store._run import Run
from benchmarks.store._visible import visible

__all__ = ["MEASURES", "Run"]

MEASURES = {
    "bytes_per_step": per_step,
    "bytes_growth_10x": growth,
    "ingest_steps_per_s": steps,
    "ingest_exchanges_per_s": exchanges,
    "append_ratio_10k": append_ratio,
    "rss_mb": memory,
    "flush_to_visible_p95_s": visible,
    "read_mtok_s": reading,
    "trajectory_ms": trajectory,
}
"""By the figure that each gives."""
