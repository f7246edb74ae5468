"""kill -9 of producer, ingest, committer and maintainer, and SIGSTOP of the committer past its lease, at random moments.

Forty times in a folder, and once round all that can happen in a bucket. `make soak` does the same a thousand times.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.soak import NAMES, ROUNDS, Soak, check
from tests.stores import Endpoint, Place


def freeze_when_there_is_something(place: Place, name: str, frozen: dict[str, str]) -> bool:
    """A dataset of what is there; False when nothing is: a slow machine may commit nothing for a while."""
    warehouse = place.open(create=False)
    if not warehouse.query("SELECT 1 FROM steps WHERE turn < 6 LIMIT 1").num_rows:
        return False
    frozen[name] = warehouse.datasets.create(name, "turn < 6").fingerprint
    return True


@pytest.mark.timeout(400)
def test_forty_deaths_lose_and_double_nothing(tmp_path: Path) -> None:
    frozen: dict[str, str] = {}
    due, rounds = [10, 20], 0
    with Soak(tmp_path, os.getpid(), pause=0.08, longest=0.3) as soak:
        while rounds < 40 or due:
            soak.round()
            rounds += 1
            if due and rounds >= due[0] and freeze_when_there_is_something(soak.place, f"after-{due[0]}", frozen):
                due.pop(0)
        soak.finish()
        found = check(soak.place, soak.accepted(), frozen)
    assert sum(soak.did.values()) == rounds
    assert len(frozen) == 2
    assert found["steps"] > rounds
    assert found["commits"] > 2


@pytest.mark.timeout(400)
def test_deaths_lose_and_double_nothing_in_a_bucket(tmp_path: Path, moto_endpoint: Endpoint) -> None:
    """Each kind of death, and the pauses, with a dataset that is frozen in the middle."""
    frozen: dict[str, str] = {}
    with Soak(tmp_path, os.getpid(), moto_endpoint.place(), pause=0.2, longest=0.3) as soak:
        rounds = 0
        while rounds < len(ROUNDS) or not frozen:
            soak.round()
            rounds += 1
            if rounds >= 3 and not frozen:
                freeze_when_there_is_something(soak.place, "middle", frozen)
        soak.finish()
        found = check(soak.place, soak.accepted(), frozen)
    assert {what.split()[1] for what in soak.did if what.startswith("killed")} == {"ingest", "produce", "maintain"}
    assert sum(count for what, count in soak.did.items() if what.startswith("paused")) >= 2
    assert all(len(soak.accepted()[name]) > 0 for name in NAMES)
    assert found["commits"] > 2
