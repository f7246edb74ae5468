"""How fast whole prompts come out of a warehouse on disk."""

from __future__ import annotations

from typing import Any

from benchmarks.store._run import Run
from benchmarks.store._talk import Shape

_READERS = 3


def reading(run: Run) -> dict[str, Any]:
    """Millions of ids per second of all steps, each time by a process that has read nothing yet; the best, as others only disturb."""
    built = run.workload
    took = []
    for _ in range(_READERS):
        reader = run.part("read", built.uri)
        took.append(reader.ask(""))
        reader.stop()
        assert took[-1]["steps"] == built.steps and took[-1]["tokens"] == Shape(run.sizes.conversations).prompt_ids
    best = min(took, key=lambda answer: answer["wall"])
    run.details["read_mtok_per_cpu_s"] = max(answer["tokens"] / answer["cpu"] for answer in took) / 1e6
    run.details["read_tokens"] = best["tokens"]
    return {"read_mtok_s": best["tokens"] / best["wall"] / 1e6}
