"""How fast whole prompts come out of a warehouse on disk.

There are so many that opening the warehouse and asking which they are, which take a tenth of a second whatever comes then, weigh little.
"""

from __future__ import annotations

from typing import Any

from benchmarks.store._run import Built, Run
from benchmarks.store._talk import Shape

_READERS = 3
_CONVERSATIONS = 256


def reading(run: Run) -> dict[str, Any]:
    """Millions of ids per second of all steps, batch by batch as a trainer takes them, by a process that has read nothing yet.

    Of some processes the best, as others only disturb; beside it the same into one table, for which there is no memory yet either.
    """
    shape = Shape(max(_CONVERSATIONS, run.sizes.conversations))
    built = run.workload if run.sizes.conversations == shape.conversations else run.build("read", shape)
    best = _best(run, built, shape, "stream")
    table = _best(run, built, shape, "table")
    run.details["read_tokens"] = best["tokens"]
    run.details["read_mtok_per_cpu_s"] = best["tokens"] / best["cpu"] / 1e6
    run.details["read_table_mtok_s"] = table["tokens"] / table["wall"] / 1e6
    run.details["read_table_mtok_per_cpu_s"] = table["tokens"] / table["cpu"] / 1e6
    return {"read_mtok_s": best["tokens"] / best["wall"] / 1e6}


def _best(run: Run, built: Built, shape: Shape, how: str) -> dict[str, Any]:
    took = []
    for _ in range(_READERS):
        reader = run.part("read", built.uri, how)
        took.append(reader.ask(""))
        reader.stop()
        assert took[-1]["steps"] == built.steps and took[-1]["tokens"] == shape.prompt_ids
    best: dict[str, Any] = min(took, key=lambda answer: answer["wall"])
    return best
