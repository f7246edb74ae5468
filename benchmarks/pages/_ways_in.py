"""Submissions while two tabs look, beside submissions while nobody does."""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import count

import numpy as np
from benchmarks.pages._run import Run

_BATCH = 5
_PAUSE = 0.02
"""Seconds between two requests, as of producers that wait for their models."""
_NUMBERS = count()


def submissions(run: Run) -> dict[str, float]:
    """How long an accepted batch takes, 99 of 100, in turns of nobody and of an overview and a live tail that are open."""
    alone, watched = list[float](), list[float]()
    for _ in range(3):
        alone += _submitted(run)
        with ExitStack() as tabs:
            for view in ("overview", "collect"):
                page = tabs.enter_context(run.page())
                page.goto(f"{run.url}/#/{view}")
            watched += _submitted(run)
    without, with_tabs = (float(np.percentile(some, 99)) for some in (alone, watched))
    return {"submit_p99_ms": without, "submit_p99_with_tabs_ms": with_tabs, "submit_p99_ratio": with_tabs / without}


def _submitted(run: Run) -> list[float]:
    took, begun = list[float](), time.monotonic()
    while time.monotonic() - begun < run.seconds / 6:
        body = [
            {"step_id": f"way-{next(_NUMBERS)}", "prompt_ids": [1] * 400, "response_ids": [2] * 100}
            for _ in range(_BATCH)
        ]
        sent = time.perf_counter()
        run.send("/steps", body)
        took.append((time.perf_counter() - sent) * 1e3)
        time.sleep(_PAUSE)
    return took
