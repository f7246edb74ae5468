"""What a step takes on disk, and how that grows with the length of conversations."""

from __future__ import annotations

from typing import Any

from benchmarks.store._run import Run
from benchmarks.store._talk import Drift, Shape

DRIFTS: tuple[Drift, ...] = ("none", "retokenised", "clock")


def per_step(run: Run) -> dict[str, Any]:
    """All in: what `du` says of the maintained warehouse. Beside it, what ids and logprobs alone take, whole and plain."""
    built = run.workload
    shape = Shape(run.sizes.conversations)
    plain = 4 * (shape.prompt_ids + 2 * shape.steps * shape.answer) / built.steps
    run.details["bytes_plain_per_step"] = plain
    run.details["bytes_json_per_step"] = built.size / built.steps
    return {"bytes_per_step": built.bytes / built.steps}


def growth(run: Run) -> dict[str, Any]:
    """How many times the bytes of a conversation of 20 turns one of 200 takes; the worst kind of drift counts.

    Ten times as many of the short ones are measured: what files cost by themselves then weighs on both alike. It is no small part of
    a few steps, and would flatter the long ones if the short ones were as few.
    """
    found: dict[str, float] = {}
    for drift in DRIFTS:
        short = run.build(f"{drift}20", Shape(10 * run.sizes.long, turns=20, drift=drift))
        long = run.build(f"{drift}200", Shape(run.sizes.long, turns=200, drift=drift))
        run.details[f"bytes_per_step_{drift}"] = [short.bytes / short.steps, long.bytes / long.steps]
        found[drift] = 10 * long.bytes / short.bytes
    run.details["bytes_growth"] = found
    return {"bytes_growth_10x": max(found.values())}
