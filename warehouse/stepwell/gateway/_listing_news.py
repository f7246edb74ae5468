"""What there is to read for the listing: everything, or the steps that newer commits brought or said something about."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from stepwell.gateway._cursor import Key, literal
from stepwell.gateway._read_rows import page_sql

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["PLAIN", "anew", "news_since"]

PLAIN = (
    *(
        "step_id",
        "call_id",
        "trajectory_id",
        "prompt_id",
        "group_id",
        "split",
        "turn",
        "status",
        "trainable",
        "superseded_by",
    ),
    *("side", "policy", "policy_version", "model", "source", "dialect", "response_id", "prompt_length"),
    *("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "step_reward", "trajectory_reward"),
    *("labels", "trajectory_labels", "tags", "truncated", "drift", "tool_error", "refusal", "started_at"),
    *("finished_at", '"commit"', "producer", "sequence"),
)
"""Columns of the view `steps`."""

Ask = Callable[[str], "pa.Table"]
IdsOf = Callable[[str, "pa.Table"], list[str]]
"""The steps that the listing has with one of these ids (column `id`) in this column."""

_STEPS = f"SELECT {', '.join(PLAIN)}, metadata FROM steps"
_EVENTS = 'SELECT event_id, kind, target_kind, target_id, "commit", producer, sequence FROM events'
_FEW = 999
"""Rows that are found by an index in a tenth of the time that a look through the newest files takes."""
_MANY = 200_000
"""After so many, a look at everything is cheaper."""
_AT_ONCE = 200
"""Ids that the warehouse finds by its index."""
_MOST = 4_000
"""Steps that were said something about, after which a look at everything is cheaper, too."""
_ENDS = ("trajectory.completed", "trajectory.failed")
"""Events that no step looks different after."""


def anew(ask: Ask, agent: str) -> pa.Table:
    """All steps; `agent` is the expression of the column of that name."""
    return ask(f"SELECT {', '.join(PLAIN)}, {agent} AS agent FROM steps")


def news_since(number: int, ask: Ask, ids_of: IdsOf) -> pa.Table | None:
    """The steps that came after this commit, and those that are not as they were; None where they are so many that all are to be read.

    Raises StoreError.
    """
    import pyarrow as pa

    steps = _after(number, ask, _STEPS, "step_id")
    events = None if steps is None else _after(number, ask, _EVENTS, "event_id")
    if steps is None or events is None:
        return None
    there = set(steps["step_id"].to_pylist())
    touched = _touched(events, ids_of) - there
    if len(touched) > _MOST:
        return None
    return pa.concat_tables([steps, *(ask(f"{_STEPS} WHERE step_id IN ({some})") for some in _listed(sorted(touched)))])


def _after(number: int, ask: Ask, select: str, id_: str) -> pa.Table | None:
    after: Key = [number + 1, "", 0, ""]
    few = ask(page_sql(select, [], ("commit", "producer", "sequence", id_), after, "oldest", _FEW))
    if few.num_rows <= _FEW:
        return few
    # At once: page by page, each would cost as much as all.
    many = ask(f'{select} WHERE "commit" > {number} LIMIT {_MANY + 1}')
    return many if many.num_rows <= _MANY else None


def _touched(events: pa.Table, ids_of: IdsOf) -> set[str]:
    """The steps that these events are about: by their own id, the provider's, or their trajectory's."""
    import pyarrow as pa

    about: dict[str, set[str]] = {"step": set(), "response": set(), "trajectory": set()}
    for event in events.select(["kind", "target_kind", "target_id"]).to_pylist():
        if event["target_kind"] in about and event["kind"] not in _ENDS:
            about[event["target_kind"]].add(event["target_id"])
    found = about.pop("step")
    for kind, ids in about.items():
        if ids:
            found |= set(ids_of(f"{kind}_id", pa.table({"id": pa.array(sorted(ids), pa.string())})))
    return found


def _listed(ids: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(ids), _AT_ONCE):
        yield ", ".join(literal(id_) for id_ in ids[start : start + _AT_ONCE])
