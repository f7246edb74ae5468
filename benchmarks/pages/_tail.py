"""The live tail at fifty steps a second: frames that are dropped, and what it holds in memory when it has gone on for long."""

from __future__ import annotations

import threading
import time
from typing import Any

from benchmarks.pages._frames import late
from benchmarks.pages._run import Run

RATE = 50
_AT_REST = 10.0
"""Seconds in which nothing comes, for comparison."""
_CAME = """(many) => {
  const words = document.querySelector('[data-figure=received]')?.textContent ?? '';
  return parseInt(words.replace(/[^0-9a-z]/g, ''), 10) === many;
}"""


def tail(run: Run) -> dict[str, float]:
    """Frames beside those of the same page at rest; the heap after the garbage is collected."""
    with run.page() as page:
        page.goto(f"{run.url}/#/collect")
        page.locator(".tail .badge.good", has_text="live").wait_for()
        with late(page) as rest:
            page.wait_for_timeout(_AT_REST * 1e3)
        with producer(run) as sent, late(page) as frames:
            page.wait_for_timeout(run.seconds * 1e3)
        page.wait_for_function(_CAME, arg=sent.count)
        return {
            "tail_late_frames_percent": frames.percent,
            "rest_late_frames_percent": rest.percent,
            "tail_longest_frame_ms": frames.worst,
            "tail_heap_mb": _heap(page),
        }


class producer:  # noqa: N801 - a context manager, named as a function is
    """Somebody who submits so many steps a second while the block runs."""

    def __init__(self, run: Run) -> None:
        self.count = 0
        self._run, self._over = run, threading.Event()
        self._thread = threading.Thread(target=self._go)

    def __enter__(self) -> producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _go(self) -> None:
        begun, name = time.monotonic(), f"live-{time.time_ns()}"
        while not self._over.is_set():
            some = range(self.count, self.count + RATE // 10)
            self._run.send("/steps", [_step(name, number) for number in some])
            self.count += len(some)
            self._over.wait(max(0.0, begun + self.count / RATE - time.monotonic()))


def _step(name: str, number: int) -> dict[str, Any]:
    return {
        "step_id": f"{name}.{number}",
        "trajectory_id": f"{name}-{number // 20}",
        "prompt_ids": [1] * 50,
        "response_ids": [2] * 20,
        "logprobs": [-0.1] * 20,
        "model": "model-1",
    }


def _heap(page: Any) -> float:
    """In MB, of what is still needed."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {one["name"]: one["value"] for one in session.send("Performance.getMetrics")["metrics"]}
    return float(metrics["JSHeapUsedSize"]) / 1e6
