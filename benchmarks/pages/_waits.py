"""How long somebody waits: for the first view, for another page, filter or order, for a step of 32,768 tokens."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from benchmarks.pages._frames import late
from benchmarks.pages._run import Run

_FIRST = 5
_SETTLED = """() => {
  const foot = document.querySelector('.lists .foot span');
  return foot && !document.querySelector('.lists .foot').innerText.includes('asking') && !document.querySelector('.stale');
}"""
_TRAJECTORIES = (
    *("", "?sort=-steps", "?sort=-reward", "?state=completed", "?state=open", "?reward_min=1", "?group_id=group-7"),
    *("?model=model-1", "?agent=agent-3", "?policy_version_min=40&policy_version_max=60", "?split=eval"),
)
_STEPS = (
    *("", "&sort=-prompt_length", "&status=error", "&model=model-2", "&agent=agent-1", "&policy_version_min=90"),
    *("&q=alpha", "&trainable=true&status=truncated", "&group_id=group-3", "&trajectory_id=run-77"),
)
PLACES = [f"#/trajectories{more}" for more in _TRAJECTORIES] + [f"#/trajectories?of=steps{more}" for more in _STEPS]
LONG = 32_768
_LONG = "#/trajectories/long?step=long&tab=tokens"


def pages(run: Run) -> dict[str, float]:
    """The first view in a new browser profile; then filters and orders of the lists, each with the page after it, twice round."""
    first = [_first(run) for _ in range(_FIRST)]
    took: list[float] = []
    with run.page() as page:
        for place in [*PLACES, *PLACES]:
            took.append(_until_there(run, page, place))
            took += _next_page(page)
    return {
        "first_view_ms": float(np.median(first)),
        "first_view_worst_ms": max(first),
        "page_median_ms": float(np.median(took)),
        "page_p95_ms": float(np.percentile(took, 95)),
        "page_worst_ms": max(took),
    }


def _first(run: Run) -> float:
    begun = time.perf_counter()
    with run.page() as page:
        page.wait_for_function(
            "() => [...document.querySelectorAll('.stat .value')].some((one) => /\\d/.test(one.textContent))",
            polling="raf",
        )
        return (time.perf_counter() - begun) * 1e3


def _until_there(run: Run, page: Any, place: str) -> float:
    begun = time.perf_counter()
    with page.expect_response(lambda answer: "/api/v1/" in answer.url and "limit=" in answer.url):
        page.goto(f"{run.url}/{place}")
    page.wait_for_function(_SETTLED, polling="raf")
    return (time.perf_counter() - begun) * 1e3


def _next_page(page: Any) -> list[float]:
    """What the next page takes when somebody scrolls to it; nothing where there is none."""
    more = page.get_by_role("button", name="More")
    if more.count() == 0:
        return []
    begun = time.perf_counter()
    with page.expect_response(lambda answer: "cursor=" in answer.url):
        more.first.click()
    page.wait_for_function(_SETTLED, polling="raf")
    return [(time.perf_counter() - begun) * 1e3]


def tokens(run: Run) -> dict[str, float]:
    """A step of 32,768 tokens, opened with its token view; and the frames while it is scrolled from one end to the other."""
    ids = np.random.default_rng(3).integers(0, 150_000, LONG).tolist()
    step = {"step_id": "long", "trajectory_id": "long", "prompt_ids": ids[:-512], "response_ids": ids[-512:]}
    run.send("/steps", [{**step, "logprobs": [-0.5] * 512, "model": "model-1"}])
    run.flush()
    took = [_opened(run) for _ in range(3)]
    with run.page() as page:
        page.goto(f"{run.url}/{_LONG}")
        page.locator(".token-row").first.wait_for()
        page.locator(".token-rows").hover()
        with late(page) as frames:
            for _ in range(120):
                page.mouse.wheel(0, 400)
                page.wait_for_timeout(16)
    return {"step_32k_ms": float(np.median(took)), "scroll_late_frames_percent": frames.percent}


def _opened(run: Run) -> float:
    with run.page() as page:
        begun = time.perf_counter()
        page.goto(f"{run.url}/{_LONG}")
        page.locator(".token-row").first.wait_for()
        return (time.perf_counter() - begun) * 1e3
