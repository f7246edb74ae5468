"""A warehouse of many steps, committed as ingest would, but without spools and parsing: thousands of rows in a moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stepwell.warehouse import Warehouse
from stepwell.warehouse._commit.committer import commit_rows
from stepwell.warehouse._ingest.rows import rows_of
from stepwell.warehouse._tables.schema import COMMITS, EVENTS, STEPS

PRODUCERS = ("a", "b'b")
TURNS = 20
"""Steps of a trajectory."""
ROW = 3
"""Steps that one record brings, so that the order within a record counts, too."""


def fill(warehouse: Warehouse, commits: int, steps: int, events: int = 0) -> list[str]:
    """So many more commits, each of so many steps, and events about the first of them; the steps' ids, in their order."""
    found: list[str] = []
    table = warehouse.tables[COMMITS.name]
    table.refresh()
    reached, first = dict(table.marks()), table.number() + 1
    for number in range(first, first + commits):
        before, named = dict(reached), f"c{number:03}"
        rows = list(_steps(named, steps, reached))
        said = list(_events(rows[:events], reached))
        for spec, made in ((STEPS, rows), (EVENTS, said)):
            warehouse.tables[spec.name].refresh()
            warehouse.tables[spec.name].commit(rows_of(spec, made), {})
        table.refresh()
        table.commit(commit_rows(number, before, reached, {}), reached, number)
        rows.sort(key=lambda row: (row["producer"], row["sequence"], row["step_id"]))
        found += [row["step_id"] for row in rows]
    return found


def _steps(named: str, many: int, reached: dict[str, int]) -> Iterator[dict[str, Any]]:
    for number in range(many):
        producer = PRODUCERS[number // ROW % len(PRODUCERS)]
        if number % ROW == 0:
            reached[producer] = reached.get(producer, 0) + 1
        yield {
            "step_id": f"{named}/{(number * 7919) % many:05}",  # not in the order in which they come
            "trajectory_id": f"{named}-t{number // TURNS}",
            "turn": number % TURNS,
            "producer": producer,
            "sequence": reached[producer],
            "status": "ok" if number % 5 else "error",
            "model": f"m{number % 4}",
            "trainable": True,
            "response_ids": [number % 100, 7],
            "prompt_length": 4,
        }


def _events(steps: list[dict[str, Any]], reached: dict[str, int]) -> Iterator[dict[str, Any]]:
    for step in steps:
        producer = step["producer"]
        reached[producer] += 1
        about = {"kind": "reward", "name": "reward", "target_kind": "step", "target_id": step["step_id"], "value": 0.5}
        yield {"event_id": f"{step['step_id']}.reward", "producer": producer, "sequence": reached[producer], **about}
