"""Where the calls belong that are kept as they crossed the wire: with the steps that were made of them."""

from __future__ import annotations

from collections.abc import Iterable

from stepwell.warehouse._link.link import Linked
from stepwell.warehouse._parse.events import Row
from stepwell.warehouse._parse.records import Parsed


def raw_rows(parsed: Parsed, linked: Iterable[Linked]) -> list[Row]:
    """The rows of a flush's raw calls, with the trajectory that linking found for them.

    One whose steps were not stored is left out: they are there already, or belong to a trajectory that was forgotten.
    """
    if not parsed.raw:
        return []
    homes = {_call(item.draft.step.step_id): item.trajectory_id for item in linked}
    meant = {_call(draft.step.step_id) for draft in parsed.drafts}
    return [
        row | {"trajectory_id": homes.get(row["exchange_id"], row["trajectory_id"])}
        for row in parsed.raw
        if row["exchange_id"] in homes or row["exchange_id"] not in meant
    ]


def _call(step_id: str) -> str:
    return step_id.rpartition(".")[0]
