"""The reader that a preview is about, and its first optimizer step, where that is not too much to read here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stepwell.gateway._work_chosen import Chosen, check_size

if TYPE_CHECKING:
    from stepwell.reader import BatchReader, Plan, TreeBatches
    from stepwell.warehouse import Warehouse

__all__ = ["MOST_STEPS", "MOST_TOKENS", "SELECTING", "Asked", "reader_of"]

MOST_STEPS = 2_000_000
MOST_TOKENS = 4_000_000
"""Of an optimizer step that is read, all its steps in full."""
SELECTING = ("dataset", "where", "at", "made_here")
"""What is asked beside the reader's settings: which steps."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A reader, how its steps are named to it, and what it plans."""

    reader: BatchReader
    named: Mapping[str, Any]
    plan: Plan

    def first(self) -> tuple[TreeBatches | None, str | None]:
        """The first optimizer step, or why there is none.

        Raises:
            InvalidRecord: what a reader refuses.
        """
        if not self.plan.optimizer_steps:
            return None, "there is no optimizer step"
        if (tokens := self.plan.optimizer_steps[0].tokens_naive) > MOST_TOKENS:
            most = f"at most {MOST_TOKENS:,} are read here: set groups_per_step"
            return None, f"the first optimizer step has {tokens:,} tokens, and {most}"
        batches = next(iter(self.reader), None)
        return batches, None if batches is not None else "nothing is left of it when its tokens are read"


def reader_of(warehouse: Warehouse, asked: Mapping[str, Any], settings: Mapping[str, Any]) -> Asked:
    """`asked` says which steps (see `SELECTING`), `settings` are the reader's own.

    Raises:
        InvalidRecord: a setting; nothing is left to train on.
        Problem: 404 for a dataset that is not there; 422 for too many steps.
    """
    from stepwell.reader import BatchReader

    chosen = Chosen.of(warehouse, asked)
    [found] = warehouse.query(f"SELECT count(*) AS n FROM steps WHERE ({chosen.where}\n)", at=chosen.at).to_pylist()
    check_size(found["n"], MOST_STEPS)
    named = (
        {"dataset": chosen.name, "version": chosen.version} if chosen.name else {"where": chosen.where, "at": chosen.at}
    )
    reader = BatchReader(warehouse, **named, **settings)
    return Asked(reader, named, reader.plan())
