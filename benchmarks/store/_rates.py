"""Steps and calls that ingest takes in per second of processor time: per core, then, and whatever else the machine does meanwhile."""

from __future__ import annotations

import time
from itertools import chain
from typing import Any

import orjson
from benchmarks.store._run import Run
from benchmarks.store._spools import arrow_entries, exchange_entries, fill, new_spool, step_entry
from benchmarks.store._talk import Shape, talk

from stepwell.warehouse import Warehouse

PARTS = 5
"""The workload so many times, with other ids and words: what is measured are all but the first."""


def steps(run: Run) -> dict[str, Any]:
    """Of the workload, in Arrow records, by a process that has been at it.

    Beside it the same as JSON, and as a baseline how many of those bodies are merely parsed.
    """
    built = run.workload
    bodies = [step_entry(turn).body for turn in talk(Shape(8), "baseline")]
    begun = time.process_time()
    for body in bodies:
        orjson.loads(body)
    run.details["json_steps_per_s"] = len(bodies) / (time.process_time() - begun)
    run.details["ingest_json_steps_per_s"] = built.steps / built.cpu
    many = max(1, built.steps // 20)
    folder = run.new_folder("arrow")
    Warehouse.open(folder / "warehouse")
    with new_spool(folder / "spool") as spool:
        worker = run.part("ingest", folder / "warehouse", folder / "spool")
        took = []
        for part in range(PARTS):
            fill(spool, arrow_entries(talk(Shape(many), "arrow", part * many)))
            took.append(worker.ask("go"))
        worker.stop()
    stored = Warehouse.open(folder / "warehouse").query("SELECT count(*) AS n FROM steps")["n"][0].as_py()
    assert stored == PARTS * many * 20, f"{stored} steps of {PARTS * many * 20}"
    # The first flush of a process loads code and takes memory from the system, which it keeps.
    first, *then = took
    run.details["ingest_steps_per_s_first"] = many * 20 / first["cpu"]
    run.details["ingest_steps_per_s_wall"] = len(then) * many * 20 / sum(one["wall"] for one in then)
    return {"ingest_steps_per_s": len(then) * many * 20 / sum(one["cpu"] for one in then)}


def exchanges(run: Run) -> dict[str, Any]:
    """Calls to an engine that gives ids and logprobs, of conversations of 20 turns; parsing and linking included."""
    folder = run.new_folder("exchanges")
    Warehouse.open(folder / "warehouse")
    with new_spool(folder / "spool") as spool:
        worker = run.part("ingest", folder / "warehouse", folder / "spool")
        turns = talk(Shape(max(1, run.sizes.calls // 20)), "call")
        count, size = fill(spool, chain.from_iterable(map(exchange_entries, turns)))
        took = worker.ask("go")
        worker.stop()
    calls = count // 2
    stored = (
        Warehouse.open(folder / "warehouse").query("SELECT count(*) AS n FROM steps WHERE trainable")["n"][0].as_py()
    )
    assert took["records"] == count and stored == calls, f"{stored} trainable steps of {calls} calls"
    run.details["exchange_bytes"] = size / calls
    run.details["ingest_exchanges_per_s_wall"] = calls / took["wall"]
    return {"ingest_exchanges_per_s": calls / took["cpu"]}
