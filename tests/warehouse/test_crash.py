"""kill -9 of producer, ingest, committer and maintainer, and SIGSTOP of the committer past its lease: forty times, at random moments.

`make soak` does the same a thousand times.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.soak import Soak, check

from stepwell.warehouse import Warehouse

ROUNDS = 40


@pytest.mark.timeout(400)
def test_forty_deaths_lose_and_double_nothing(tmp_path: Path) -> None:
    frozen: dict[str, str] = {}
    due, rounds = [ROUNDS // 4, ROUNDS // 2], 0
    with Soak(tmp_path, os.getpid(), pause=0.08, longest=0.3) as soak:
        while rounds < ROUNDS or due:  # a slow machine may commit nothing for a while
            soak.round()
            rounds += 1
            warehouse = Warehouse.open(soak.warehouse)
            if due and rounds >= due[0] and warehouse.query("SELECT 1 FROM steps WHERE turn < 6 LIMIT 1").num_rows:
                name = f"after-{due.pop(0)}"
                frozen[name] = warehouse.datasets.create(name, "turn < 6").fingerprint
        soak.finish()
        found = check(Warehouse.open(soak.warehouse), soak.accepted(), frozen)
    assert sum(soak.did.values()) == rounds
    assert len(frozen) == 2
    assert found["steps"] > ROUNDS
    assert found["commits"] > 2
