"""What is told about forgetting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stepwell.warehouse._forget.plan import Plan
from stepwell.warehouse._forget.tables import Purged


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was forgotten, or would be, and what else is touched by it. `quoted`: by trajectory, steps that repeat some of it."""

    trajectories: list[str]
    steps: int
    events: int
    exchanges: int
    rebased: int
    quoted: dict[str, list[str]]
    datasets: list[str]
    unreadable: dict[str, str]
    payloads: int = 0
    tags: list[str] = field(default_factory=list)
    indices: list[str] = field(default_factory=list)
    litter: list[str] = field(default_factory=list)
    unreadable_files: list[str] = field(default_factory=list)
    spools_pending: list[str] = field(default_factory=list)
    """Spools whose producer has not made its file anew yet: it does so once all of it is committed."""
    resumed: int = 0
    """How many runs that were interrupted are part of it."""


def told(
    made: Plan,
    datasets: Sequence[str],
    done: Purged | None = None,
    pending: Sequence[str] = (),
    *,
    resumed: int = 0,
) -> Forgotten:
    """What a plan comes to, and what was done of it so far. `datasets`: the labels of those that it touches."""
    done = done or Purged()
    return Forgotten(
        trajectories=sorted(made.trajectories),
        steps=len(made.steps),
        events=len(made.events),
        exchanges=len(made.exchanges),
        rebased=sum(rows.num_rows for rows in made.rebased),
        quoted=made.quoted,
        datasets=list(datasets),
        unreadable=made.unreadable,
        payloads=done.rows.get("payloads", 0),
        tags=done.tags,
        indices=done.indices,
        litter=done.litter,
        unreadable_files=done.unreadable,
        spools_pending=list(pending),
        resumed=resumed,
    )
