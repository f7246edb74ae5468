"""Scoring: what is stored goes through a function, and what that says differs from what stands, or not."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import orjson

from stepwell.sdk.records import Feedback, checked, encoded
from stepwell.spool import Entry

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse

Level = Literal["trajectory", "step"]
Row = dict[str, Any]

_CHUNK = 64
"""Trajectories in memory at once."""
_SHOWN = 20
"""Failures that are shown one by one."""
_TEXTS = ("messages", "tools", "response", "metadata")
_COLUMNS = (
    *("step_id", "trajectory_id", "prompt_id", "group_id", "split", "parent_id", "turn", *_TEXTS),
    *("finish_reason", "status", "trainable", "model", "policy", "policy_version", "tags", "labels", "side"),
    *("step_reward", "step_rewards", "step_scores", "truncated", "drift", "tool_error", "refusal"),
)


@dataclass(frozen=True, slots=True)
class Said:
    """One score of one target. `before` is the event that it replaces, if there is one."""

    level: Level
    target: str
    name: str
    author: str
    value: float
    before: str | None

    def entry(self) -> Entry:
        """As a record for a spool. Its id follows from all of this, so that saying it twice, as after a crash, says it once."""
        parts = [self.level, self.target, self.name, self.author, self.value.hex(), self.before or ""]
        id_ = hashlib.blake2b(orjson.dumps(parts), digest_size=16).hexdigest()
        fields = {"feedback_id": f"score.{id_}", f"{self.level}_id": self.target, "name": self.name}
        record = checked(Feedback, {**fields, "author": self.author, "score": self.value})
        return Entry(id=record.feedback_id, kind="feedback", body=encoded(record))


class Run:
    """One pass over a warehouse, as it is when the pass begins."""

    def __init__(
        self,
        warehouse: Warehouse,
        function: Callable[[Row], object],
        level: Level,
        name: str,
        author: str,
        *,
        prefix: str | None = None,
    ) -> None:
        """`name`: of a single number. `prefix`: before the names in a dict, with a dot."""
        self._warehouse, self._function = warehouse, function
        self._level: Level = level
        self._name, self._author, self._prefix = name, author, prefix
        self.looked = self.written = self.unchanged = self.failed = 0

    def scores(self, where: str | None, limit: int | None) -> Iterator[Said]:
        """What is new, as it is found. Counts, and says on stderr what fails.

        Raises:
            StepwellError: the condition is no valid SQL, the store failed.
        """
        at = self._warehouse.version()
        standing = self._standing(at)
        for row in self._rows(where, limit, at):
            self.looked += 1
            target = str(row[f"{self._level}_id"])
            for name, value in self._asked(row, target).items():
                event, before = standing.get((target, name), (None, None))
                if before == value:
                    self.unchanged += 1
                    continue
                self.written += 1
                yield Said(self._level, target, name, self._author, value, event)

    def _standing(self, at: int) -> dict[tuple[str, str], tuple[str, float]]:
        """By target and name: the event and the value that this author's last score has."""
        author = _literal(self._author)
        rows = self._warehouse.query(
            "SELECT target_id, name, event_id, value FROM feedback "
            f"WHERE kind = 'score' AND target_kind = '{self._level}' AND author = {author}",
            at=at,
        ).to_pylist()
        return {(row["target_id"], row["name"]): (row["event_id"], row["value"]) for row in rows}

    def _rows(self, where: str | None, limit: int | None, at: int) -> Iterator[Row]:
        view = "trajectories" if self._level == "trajectory" else "steps"
        columns = "*" if self._level == "trajectory" else "step_id, trajectory_id"
        condition = f"WHERE ({where}\n)" if where else ""
        order = "trajectory_id" if self._level == "trajectory" else "trajectory_id, step_id"
        bound = f"LIMIT {limit}" if limit else ""
        found = self._warehouse.query(f"SELECT {columns} FROM {view} {condition} ORDER BY {order} {bound}", at=at)
        for start in range(0, len(found), _CHUNK):
            rows = found.slice(start, _CHUNK).to_pylist(maps_as_pydicts="lossy")
            steps = self._steps([row["trajectory_id"] for row in rows], at)
            if self._level == "step":
                by_id = {step["step_id"]: step for own in steps.values() for step in own}
                yield from (by_id[row["step_id"]] for row in rows)
            else:
                yield from ({**row, "steps": steps.get(row["trajectory_id"], [])} for row in rows)

    def _steps(self, trajectories: list[str], at: int) -> dict[str, list[Row]]:
        """The whole steps of each, in the order they came."""
        listed = ", ".join(_literal(one) for one in dict.fromkeys(trajectories))
        stream = self._warehouse.steps(f"trajectory_id IN ({listed})", columns=_COLUMNS, at=at)
        found: dict[str, list[Row]] = {}
        for batch in stream:
            for row in batch.to_pylist(maps_as_pydicts="lossy"):
                read = {name: orjson.loads(row[name]) for name in _TEXTS if row[name] is not None}
                found.setdefault(row["trajectory_id"], []).append({**row, **read})
        return found

    def _asked(self, row: Row, target: str) -> dict[str, float]:
        try:
            return self._named(self._function(row))
        except Exception as error:  # noqa: BLE001 — the boundary to the user's function: the others are to be scored
            self.failed += 1
            if self.failed <= _SHOWN:
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                print(f"stepwell: {self._level} {target}: {reason}", file=sys.stderr, flush=True)  # noqa: T201
            return {}

    def _named(self, answer: object) -> dict[str, float]:
        if answer is None:
            return {}
        if isinstance(answer, Mapping):
            names = {str(name): f"{self._prefix}.{name}" if self._prefix else str(name) for name in answer}
            return {names[str(name)]: _number(value) for name, value in answer.items() if value is not None}
        return {self._name: _number(answer)}


def _number(value: object) -> float:
    try:
        number = float(value)  # type: ignore[arg-type] # whatever has __float__: numpy's and torch's numbers do
    except (TypeError, ValueError):
        raise TypeError(f"it returned {value!r:.80}, which is no number") from None
    if isinstance(value, str | bytes) or not math.isfinite(number):
        raise ValueError(f"it returned {value!r:.80}, which is no finite number")
    return number


def _literal(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
