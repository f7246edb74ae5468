"""What was forgotten must not come in again: from a spool, a later import, a client that tries once more.

The table `forgotten` keeps hashes of ids, not the ids. Its ledger counts how often something was forgotten; a flush says which count its
writer knew, and one that knew less is written anew (see `_commit/committer`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Literal

import orjson
import pyarrow as pa

from stepwell.warehouse._link.link import Linked
from stepwell.warehouse._parse.draft import Draft
from stepwell.warehouse._parse.events import Row
from stepwell.warehouse._parse.records import Parsed
from stepwell.warehouse._parse.warmed import CONTEXT
from stepwell.warehouse._tables.again import again
from stepwell.warehouse._tables.ledger import LedgerTable
from stepwell.warehouse._tables.schema import FORGOTTEN

Kind = Literal["trajectory", "step", "response", "exchange", "event"]


def tombstone(kind: Kind, id_: str) -> str:
    """What is kept of an id."""
    return hashlib.blake2b(f"{kind}:{id_}".encode(), digest_size=16).hexdigest()


class Tombstones:
    """The table `forgotten`, as of the last `follow`."""

    def __init__(self, table: LedgerTable) -> None:
        self._table = table
        self._hashes: frozenset[str] = frozenset()
        self.number = 0
        """How often something was forgotten."""

    def follow(self) -> bool:
        """Go by the table as it was last refreshed; whether something was forgotten since."""
        if self._table.number() == self.number:
            return False
        rows = self._table.dataset.to_table(columns=["forgotten_id"], filter="ledger IS NULL")
        self._hashes, self.number = frozenset(rows["forgotten_id"].to_pylist()), self._table.number()
        return True

    def has(self, kind: Kind, id_: str | None) -> bool:
        """Whether this was forgotten."""
        return id_ is not None and bool(self._hashes) and tombstone(kind, id_) in self._hashes

    def strip(self, parsed: Parsed) -> None:
        """Take out of `parsed` what was forgotten, as far as it says itself what it is."""
        if not self._hashes:
            return
        calls = {draft.step.step_id.rpartition(".")[0] for draft in parsed.drafts if self._draft(draft)}
        parsed.drafts = [draft for draft in parsed.drafts if not self._draft(draft)]
        parsed.raw = [row for row in parsed.raw if row["exchange_id"] not in calls and not self._exchange(row)]
        parsed.events = [row for row in parsed.events if not self._event(row)]
        parsed.quarantined = [row for row in parsed.quarantined if not self._exchange(row)]
        parsed.opened = [one for one in parsed.opened if not self.has("trajectory", one.trajectory_id)]
        parsed.warmed = [one for one in parsed.warmed if not self.has("trajectory", one.trajectory_id)]

    def without(self, linked: Iterable[Linked]) -> list[Linked]:
        """The steps that belong to no forgotten trajectory, which linking may have found out."""
        return [item for item in linked if not self.has("trajectory", item.trajectory_id)]

    def _draft(self, draft: Draft) -> bool:
        return self.has("step", draft.step.step_id) or self.has("trajectory", draft.step.trajectory_id)

    def _exchange(self, row: Row) -> bool:
        return self.has("exchange", row["exchange_id"]) or self.has("trajectory", row.get("trajectory_id"))

    def _event(self, row: Row) -> bool:
        kinds: Mapping[str, Kind] = {"step": "step", "trajectory": "trajectory", "response": "response"}
        kind = kinds.get(row["target_kind"])
        if self.has("event", row["event_id"]) or (kind is not None and self.has(kind, row["target_id"])):
            return True
        return row["kind"] == CONTEXT and self.has("trajectory", orjson.loads(row["payload"]).get("trajectory_id"))


def bury(table: LedgerTable, ids: Mapping[Kind, Collection[str]]) -> int:
    """Add tombstones; the count after it.

    Raises:
        StoreError: the store failed, or others came first every time.
    """
    kinds = {tombstone(kind, id_): kind for kind, some in ids.items() for id_ in some}

    def add() -> None:
        there = set(table.dataset.to_table(columns=["forgotten_id"])["forgotten_id"].to_pylist())
        now, new = datetime.now(UTC), [hash_ for hash_ in kinds if hash_ not in there]
        rows = [{"forgotten_id": hash_, "kind": kinds[hash_], "created_at": now} for hash_ in new]
        table.commit(pa.Table.from_pylist(rows, schema=FORGOTTEN.schema), {}, table.number() + 1)

    again(table, add)
    return table.number()
