"""Any sequence of appends, trims and restarts, against a model in memory."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from stepwell.errors import SpoolFull
from stepwell.spool import LOST, Entry, Spool, SpoolReader

LIMIT = 6000


class SpoolModel(RuleBasedStateMachine):
    """Requests `q…` are opened, answered by `q….r`; plain entries are `p…`."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "p.db"
        self.kept: dict[str, tuple[int, Entry]] = {}
        self.closed: dict[str, int | None] = {}
        self.last = 0

    @initialize()
    def start(self) -> None:
        self.spool = Spool(self.path, max_bytes=LIMIT)
        self.producer = self.spool.producer

    def keep(self, entry: Entry) -> int:
        if entry.id not in self.kept:
            self.last += 1
            self.kept[entry.id] = (self.last, entry)
            self.closed[entry.id] = None if entry.opens else 0
            if entry.ref in self.closed and self.closed[entry.ref] is None:
                self.closed[entry.ref] = self.last
        return self.kept[entry.id][0]

    @rule(batch=st.lists(st.tuples(st.sampled_from("pqr"), st.integers(0, 8), st.integers(0, 900)), max_size=4))
    def append(self, batch: list[tuple[str, int, int]]) -> None:
        entries = [self.entry(*spec) for spec in batch]
        if entries and sum(e.size for e in entries) + sum(e.size for _, e in self.kept.values()) > LIMIT:
            with pytest.raises(SpoolFull):
                self.spool.append(entries)
        else:
            assert self.spool.append(entries) == [self.keep(entry) for entry in entries]

    def entry(self, kind: str, number: int, size: int) -> Entry:
        if kind == "r":
            return Entry(f"q{number}.r", "k", body=b"x" * size, ref=f"q{number}")
        return Entry(f"{kind}{number}", "k", body=b"x" * size, opens=kind == "q")

    @rule(back=st.integers(0, 10))
    def trim(self, back: int) -> None:
        mark = max(0, self.last - back)
        gone = [
            id
            for id, (seq, _) in self.kept.items()
            if seq <= mark and (closed := self.closed[id]) is not None and closed <= mark
        ]
        assert self.spool.trim(mark) == len(gone)
        for id in gone:
            del self.kept[id], self.closed[id]

    @rule()
    def restart(self) -> None:
        self.spool.close()
        self.spool = Spool(self.path, max_bytes=LIMIT)
        for id in [id for id, closed in self.closed.items() if closed is None]:
            self.keep(Entry(f"{id}.lost", LOST, ref=id))
            self.closed[id] = self.kept[f"{id}.lost"][0]

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "spool"):
            return
        with closing(SpoolReader(self.path)) as reader:
            found = [(r.seq, r.id, r.kind, r.ref, r.body) for r in reader.read(0)]
            assert found == [
                (seq, e.id, e.kind, e.ref, e.body) for seq, e in sorted(self.kept.values(), key=lambda k: k[0])
            ]
            assert reader.last() == self.last
            assert reader.orphans() == any(closed is None for closed in self.closed.values())
            assert reader.producer == self.spool.producer == self.producer
        assert self.spool.bytes == sum(entry.size for _, entry in self.kept.values())

    def teardown(self) -> None:
        if hasattr(self, "spool"):
            self.spool.close()
        self.folder.cleanup()


SpoolModel.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestSpoolModel = SpoolModel.TestCase
