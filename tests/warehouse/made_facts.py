"""Facts made up at random and committed as if ingest had: everything that the views resolve, in small."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any

import orjson

from stepwell.warehouse import Warehouse
from stepwell.warehouse._commit.committer import commit_rows
from stepwell.warehouse._ingest.rows import rows_of
from stepwell.warehouse._tables.schema import COMMITS, EVENTS, EXCHANGES, STEPS

Row = dict[str, Any]

_PRODUCERS = ("a", "b", "c'c")


class Facts:
    """Writes batches of steps, events and quarantined calls of a few trajectories."""

    def __init__(self, warehouse: Warehouse, seed: int, trajectories: int = 12) -> None:
        self._warehouse, self._random = warehouse, random.Random(seed)
        self._names = [f"t'{number}" for number in range(trajectories)]
        self._reached: dict[str, int] = {}
        self._steps: list[str] = []
        self._said: list[Row] = []
        self._count = 0

    def commit(self, rows: int, *, announced: bool = False) -> None:
        """So many rows in one commit; with `announced` they are in the tables, and the commit is not finished."""
        made: dict[str, list[Row]] = {"steps": [], "events": [], "exchanges": []}
        before = dict(self._reached)
        for _ in range(rows):
            kind, row = self._row()
            producer = self._random.choice(_PRODUCERS)
            number, first = self._reached.get(producer, 0), before.get(producer, 0) + 1
            # One record in four brings another row.
            number = number if number >= first and self._random.random() < 0.25 else number + 1
            made[kind].append({**row, "producer": producer, "sequence": number})
            self._reached[producer] = number
        for spec in (EXCHANGES, STEPS, EVENTS):
            self._warehouse.tables[spec.name].refresh()
            self._warehouse.tables[spec.name].commit(rows_of(spec, made[spec.name]), {})
        if not announced:
            self.finish()

    def finish(self) -> None:
        """Everything that is written is committed."""
        commits = self._warehouse.tables[COMMITS.name]
        commits.refresh()
        before, number = commits.marks(), commits.number() + 1
        reached = {producer: mark for producer, mark in self._reached.items() if mark > before.get(producer, 0)}
        commits.commit(commit_rows(number, before, reached, {}), reached, number)

    def _row(self) -> tuple[str, Row]:
        pick, name = self._random.random(), self._random.choice(self._names)
        self._count += 1
        if pick < 0.4:
            return "steps", self._step(name)
        if pick < 0.44:
            return "exchanges", {"exchange_id": f"x{self._count}", "trajectory_id": name, "reason": "made up"}
        event = {"event_id": f"e{self._count}", "created_at": datetime.now(UTC), **self._event(name)}
        self._said.append(event)
        return "events", event

    def _step(self, name: str) -> Row:
        self._steps.append(f"s{self._count:04}")
        more = {"group_id": self._random.choice([None, None, "g1", "g9"])}
        ids = list(range(self._random.randrange(4)))
        return {
            "step_id": self._steps[-1],
            "trajectory_id": name,
            "turn": self._random.randrange(5),
            "trainable": self._random.random() < 0.8,
            "response_ids": ids,
            "response_id": f"r{self._count % 7}",
            "policy_version": self._random.choice([None, 1, 2, 3]),
            "tags": self._random.choice([None, ["side"]]),
            "prompt_length": 0,
            **more,
        }

    def _event(self, name: str) -> Row:
        step = self._random.choice(self._steps) if self._steps else "s-none"
        value = self._random.choice([0.1, 0.2, 0.7, -1.0])
        target = self._random.choice([("trajectory", name), ("step", step), ("response", f"r{self._count % 7}")])
        said = {"target_kind": target[0], "target_id": target[1], "author": self._random.choice([None, "x"])}
        group = {
            "group_id": self._random.choice(["g1", "g2", "g3"]),
            "metadata": {"group_size": self._random.choice([None, 2, "?"])},
        }
        state = {"target_kind": "trajectory", "target_id": name, "name": "state"}
        undone = (
            self._random.choice(self._said)
            if self._said
            else {"target_kind": "step", "target_id": step, "event_id": "?"}
        )
        about = {name: undone[name] for name in ("target_kind", "target_id")}
        await_ = {producer: mark + self._random.randrange(4) for producer, mark in self._reached.items()}
        return self._random.choice(
            [
                {**said, "kind": "reward", "name": "reward", "value": value},
                {**said, "kind": "reward", "name": "style", "value": value},
                {**said, "kind": "reward", "name": "style", "value": value, "payload": '{"retract":true}'},
                {**said, "kind": "score", "name": "judge", "value": value},
                {**said, "kind": "label", "name": "label", "text": self._random.choice(["good", "side"])},
                {
                    "kind": "trainable",
                    "name": "trainable",
                    "target_kind": "step",
                    "target_id": step,
                    "value": self._random.choice([0.0, 0.0, 1.0]),
                },
                {**about, "kind": "undo", "name": "undo", "text": undone["event_id"]},
                {**state, "kind": "trajectory.open", "payload": orjson.dumps(group).decode()},
                {**state, "kind": "trajectory.completed", "payload": orjson.dumps({"marks": await_}).decode()},
                {**state, "kind": "trajectory.failed", "text": "boom", "payload": '{"lost":1}'},
                {"kind": "attempt.superseded", "target_kind": "step", "target_id": step, "text": "s-other"},
                {"kind": "attempt.used", "target_kind": "step", "target_id": step},
                {"kind": "parent.late", "target_kind": "step", "target_id": step, "text": "s-other"},
            ]
        )
