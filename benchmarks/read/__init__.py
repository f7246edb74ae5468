"""The measures of `benchmarks/reader.py`, one module each, and the rollouts that they are of.

A measure takes a folder to work in, and how many steps a stream is to have. It gives figures by name; under `details` stands what else was
learned.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.read._build import build
from benchmarks.read._from_store import from_store
from benchmarks.read._packing import packing
from benchmarks.read._speed import speedup_over_flop_ratio
from benchmarks.read._streamed import streamed

__all__ = ["MEASURES"]

MEASURES: Mapping[str, Callable[[Path, int], dict[str, Any]]] = {
    "build": lambda *_: build(),
    "store": lambda folder, _: from_store(folder / "store"),
    "packing": lambda *_: packing(),
    "speedup": lambda *_: speedup_over_flop_ratio(),
    "stream": lambda folder, steps: streamed(folder / "stream", steps),
}
"""`build`: build_mtok_s_a, build_mtok_s_b, peak_extra_ratio. `store`: store_mtok_s, plan_s. `packing`: inflation_16k, inflation_65k.
`speedup`: speedup_over_flop_ratio. `stream`: rss_mb_planned, rss_mb_streamed_first, rss_mb_streamed."""
