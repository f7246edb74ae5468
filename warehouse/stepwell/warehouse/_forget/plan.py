"""What belongs to the steps that are to be forgotten, and what of the rest is touched by it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
import pyarrow as pa

from stepwell.exchange.canonical import compared
from stepwell.warehouse._encode.payloads import Lookup
from stepwell.warehouse._forget.rebase import rebased
from stepwell.warehouse._ingest.tombstones import Kind
from stepwell.warehouse._parse.warmed import CONTEXT
from stepwell.warehouse._restore.read import matching
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import STEPS

_AT_ONCE = 200
"""Trajectories read at a time."""

_INSTRUCTIONS = ("system", "developer")
"""Everybody's prompts begin with them: who shares them quotes nobody."""

_LINKS = ["step_id", "trajectory_id", "response_id", "payload_ids"]

SETS = ("steps", "trajectories", "responses", "exchanges", "events", "payloads", "partly")
"""What a plan goes on from, when it is made again."""


@dataclass(slots=True)
class Plan:
    """Ids of what goes, and of what stays and is touched."""

    steps: set[str] = field(default_factory=set)
    trajectories: set[str] = field(default_factory=set)
    """Those of which nothing stays."""
    responses: set[str] = field(default_factory=set)
    exchanges: set[str] = field(default_factory=set)
    events: set[str] = field(default_factory=set)
    payloads: set[str] = field(default_factory=set)
    """What the steps refer to: goes unless others do, too."""
    partly: set[str] = field(default_factory=set)
    """Trajectories of which some steps stay."""
    rebased: list[pa.Table] = field(default_factory=list)
    """New rows for steps that stay and referred to one that goes."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Steps that stay and could not be read before, and cannot be mended."""
    quoted: dict[str, list[str]] = field(default_factory=dict)
    """By trajectory, the steps that stay and whose prompts or answers repeat what goes."""
    datasets: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By the id of a dataset, how many of its steps, and of the other trajectories of its groups, go."""
    brought: dict[str, pa.Table] = field(default_factory=dict)
    """By id, rows of payloads that the new rows refer to and that are not there."""

    def ids(self) -> dict[Kind, Collection[str]]:
        """What must not come in again."""
        return {
            "step": self.steps,
            "trajectory": self.trajectories,
            "response": self.responses,
            "exchange": self.exchanges,
            "event": self.events,
        }

    def known(self) -> set[tuple[str, str]]:
        """The same as pairs."""
        return {(kind, id_) for kind, some in self.ids().items() for id_ in some}

    def sets(self) -> dict[str, Any]:
        """Everything that is known by ids, by name."""
        return {name: set(getattr(self, name)) for name in SETS}

    def __or__(self, other: Plan) -> Plan:
        """Both."""
        theirs = other.sets()
        both: dict[str, Any] = {name: ids | theirs[name] for name, ids in self.sets().items()}
        return Plan(
            **both,
            datasets=self.datasets | other.datasets,
            rebased=[*self.rebased, *other.rebased],
            unreadable=self.unreadable | other.unreadable,
            quoted=self.quoted | other.quoted,
        )


def plan(tables: Mapping[str, LedgerTable], payloads: Lookup, known: Plan) -> Plan:
    """Everything that goes with what is `known` to go, visible or not yet.

    Raises:
        StoreError: the store failed, or a step could not be stored anew without what goes.
    """
    for table in tables.values():
        table.refresh()
    made = Plan(**known.sets(), datasets=dict(known.datasets))
    _add_steps(tables["steps"], made)
    _add_events(tables["events"], made)
    _add_exchanges(tables["exchanges"], made)
    _add_datasets(tables["dataset_rows"], made)
    for some in _portions(sorted(made.partly)):
        stored = matching(tables["steps"].dataset, "trajectory_id", some, STEPS.schema.names)
        rows, brought = rebased(stored, made.steps, payloads, made.unreadable)
        made.rebased.append(rows)
        made.brought |= brought
    _add_quotes(tables["steps"], made)
    return made


def _add_steps(table: LedgerTable, made: Plan) -> None:
    found = [matching(table.dataset, "trajectory_id", sorted(made.trajectories), _LINKS)]
    chosen = matching(table.dataset, "step_id", sorted(made.steps), _LINKS)
    homes = (set(chosen["trajectory_id"].to_pylist()) | made.partly) - made.trajectories
    found.append(chosen)
    for some in _portions(sorted(homes)):
        rows = matching(table.dataset, "trajectory_id", some, ["step_id", "trajectory_id"]).to_pylist()
        made.partly |= {row["trajectory_id"] for row in rows if row["step_id"] not in made.steps}
    made.trajectories |= homes - made.partly
    for row in pa.concat_tables(found).to_pylist():
        made.steps.add(row["step_id"])
        made.payloads |= set(row["payload_ids"] or ())
        if row["response_id"] is not None:
            made.responses.add(row["response_id"])


def _add_events(table: LedgerTable, made: Plan) -> None:
    of = {"step": made.steps, "trajectory": made.trajectories, "response": made.responses}
    for row in _scan(table, ["event_id", "target_kind", "target_id", "text"]):
        # The text of what was found out about one step may be the id of another.
        if row["target_id"] in of.get(row["target_kind"], ()) or row["text"] in made.steps:
            made.events.add(row["event_id"])
    for row in _scan(table, ["event_id", "target_id", "payload"], f"kind = '{CONTEXT}'"):
        if orjson.loads(row["payload"]).get("trajectory_id") in made.trajectories:
            made.events.add(row["event_id"])
            made.responses |= {row["target_id"]} - {None}


def _add_exchanges(table: LedgerTable, made: Plan) -> None:
    calls = {step.rpartition(".")[0] for step in made.steps}
    for row in _scan(table, ["exchange_id", "trajectory_id"]):
        if row["trajectory_id"] in made.trajectories or row["exchange_id"] in calls:
            made.exchanges.add(row["exchange_id"])


def _add_datasets(table: LedgerTable, made: Plan) -> None:
    found: dict[str, tuple[int, int]] = {}
    for row in _scan(table, ["dataset_id", "step_id", "trajectory_id"]):
        steps, peers = found.get(row["dataset_id"], (0, 0))
        if row["step_id"] in made.steps:
            found[row["dataset_id"]] = (steps + 1, peers)
        elif row["step_id"] is None and row["trajectory_id"] in made.trajectories:
            found[row["dataset_id"]] = (steps, peers + 1)
    made.datasets |= found


def _add_quotes(table: LedgerTable, made: Plan) -> None:
    """By what each step stores of its own; who refers to one that repeats something repeats it as well."""
    columns = ["step_id", "trajectory_id", "base_id", "messages_suffix", "response"]
    said: set[bytes] = set()
    for some in _portions(sorted(made.steps)):
        for row in matching(table.dataset, "step_id", some, columns).to_pylist():
            said |= _forms(row)
    if not said:
        return
    new = {row["step_id"]: row for rows in made.rebased for row in rows.select(columns).to_pylist()}
    homes: dict[str, str] = {}
    based: dict[str, list[str]] = {}
    waiting: list[str] = []
    for stored in _scan(table, columns):
        row = new.get(stored["step_id"], stored)
        if row["step_id"] in made.steps:
            continue
        homes[row["step_id"]] = row["trajectory_id"]
        if row["base_id"] is not None:
            based.setdefault(row["base_id"], []).append(row["step_id"])
        if not said.isdisjoint(_forms(row)):
            waiting.append(row["step_id"])
    quoting: dict[str, None] = {}
    while waiting:
        step = waiting.pop()
        if step not in quoting:
            quoting[step] = None
            waiting += based.get(step, ())
    for step in sorted(quoting):
        made.quoted.setdefault(homes[step], []).append(step)


def _forms(row: Mapping[str, Any]) -> set[bytes]:
    """Hashes of what was said, however a client has wrapped it since."""
    messages = orjson.loads(row["messages_suffix"] or "[]")
    messages += [orjson.loads(row["response"])] if row["response"] else []
    return {
        hashlib.blake2b(compared(_plain(message)), digest_size=16).digest()
        for message in messages
        if message["role"] not in _INSTRUCTIONS and message["content"]
    }


def _plain(message: dict[str, Any]) -> Any:
    """What is stored apart, by its name."""
    parts = [{"type": "apart", "name": part} if isinstance(part, str) else part for part in message["content"]]
    return {**message, "content": parts}


def _scan(table: LedgerTable, columns: list[str], condition: str = "true") -> Iterator[dict[str, Any]]:
    for batch in table.dataset.to_batches(columns=columns, filter=f"ledger IS NULL AND ({condition})"):
        yield from batch.to_pylist()


def _portions(ids: Sequence[str]) -> Iterable[Sequence[str]]:
    return (ids[start : start + _AT_ONCE] for start in range(0, len(ids), _AT_ONCE))
