"""What each of the eight processes of test_race does, for some seconds. Each opens the warehouse as if nobody else were there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from stepwell.errors import StoreError
from stepwell.sdk.records import Feedback, Step
from stepwell.spool import Entry, Spool
from stepwell.warehouse import Forget, Ingest, Warehouse, verify

RACERS = 8
SECONDS = 2.0
TURNS = 4
KEEP = timedelta(seconds=1)
"""How long superseded versions stay: short enough that some go while the others work."""
_TRIES = 8
_PATIENCE = 120.0
"""Seconds for the others to begin, before a racer fails instead of waiting for ever."""

T = TypeVar("T")


def again(call: Callable[[], T]) -> T:
    """What the library leaves to whoever asked, who asks again: a stream of which a file went while it was read has given out what it
    gave, and a round of ingest in which somebody else was faster is begun anew by the next one, as the ingest process does.
    """
    for _ in range(_TRIES):
        try:
            return call()
        except StoreError:
            time.sleep(0.1)
    return call()


def turns(trajectory: str) -> list[Step]:
    """A conversation; all that is in it follows from its name."""
    seed, prompt, steps = sum(trajectory.encode()), list[int](), list[Step]()
    for turn in range(TURNS):
        prompt = [*prompt, *(seed * 7 + turn * 100 + place for place in range(40))]
        response = [seed + turn, seed, turn]
        steps.append(
            Step(step_id=f"{trajectory}.{turn}", trajectory_id=trajectory, prompt_ids=prompt, response_ids=response)
        )
        prompt = [*prompt, *response]
    return steps


def entries(trajectory: str) -> Iterator[Entry]:
    """As they go into a spool: each step, and a reward for it."""
    for step in turns(trajectory):
        yield Entry(id=f"step.{step.step_id}", kind="step", body=step.model_dump_json(exclude_none=True).encode())
        said = Feedback(feedback_id=f"f.{step.step_id}", step_id=step.step_id, reward=1.0)
        yield Entry(id=f"feedback.{step.step_id}", kind="feedback", body=said.model_dump_json().encode())


def started(root: Path, name: str) -> Warehouse:
    """The warehouse, opened, and where need be made, by all in the same moment."""
    ready = root / "ready"
    (ready / name).touch()
    while len(list(ready.iterdir())) < RACERS:
        time.sleep(0.005)
    return Warehouse.open(root / "warehouse")


def wait_for_something(warehouse: Warehouse) -> None:
    """Return when something of `a` is committed."""
    deadline = time.monotonic() + _PATIENCE
    while not is_there(warehouse, "a"):
        assert time.monotonic() < deadline, "nothing of `a` was committed"
        time.sleep(0.05)


def is_there(warehouse: Warehouse, name: str) -> bool:
    """Whether something of this racer's is committed."""
    found = warehouse.query(f"SELECT 1 FROM steps WHERE trajectory_id LIKE '{name}-%' LIMIT 1")
    return bool(found.num_rows)


def for_a_while() -> Iterator[int]:
    """Numbers, until the time is over."""
    deadline, number = time.monotonic() + SECONDS, 0
    while number < 2 or time.monotonic() < deadline:
        yield number
        number += 1


def ingest(root: Path, name: str, after_each: Callable[[Warehouse, Ingest, str], object]) -> list[str]:
    """Trajectories into a spool of its own, and ingest; which they were."""
    warehouse, done = started(root, name), list[str]()
    with Spool(root / name / "p.db") as spool:
        worker = Ingest(warehouse, root / name)
        for number in for_a_while():
            done.append(f"{name}-{number}")
            spool.append(list(entries(done[-1])))
            after_each(warehouse, worker, done[-1])
        worker.close()
    return done


def write(root: Path, name: str) -> list[str]:
    """Trajectories in; which they were. What others forget has flushes written anew: the first round goes on until one is committed."""

    def commit(warehouse: Warehouse, worker: Ingest, trajectory: str) -> None:
        again(worker.run_once)
        while trajectory.endswith("-0") and not is_there(warehouse, name):
            again(worker.run_once)

    return ingest(root, name, commit)


def forget(root: Path, name: str) -> list[str]:
    """Trajectories in, and out again for good; which they were."""

    def out_again(warehouse: Warehouse, worker: Ingest, trajectory: str) -> None:
        while again(worker.run_once) or not again(worker.settle):
            pass
        assert Forget(warehouse).run([trajectory]) is not None

    return ingest(root, name, out_again)


def maintain(root: Path, name: str) -> int:
    """Compaction, indices, removal of old versions; how many rounds."""
    warehouse, rounds = started(root, name), 0
    for _ in for_a_while():
        warehouse.maintain(keep=KEEP)
        rounds += 1
    return rounds


def ask(root: Path, name: str) -> int:
    """Queries, of which each sees whole flushes, and never fewer than the one before; how many trajectories the last one saw."""
    warehouse, seen = started(root, name), 0
    wait_for_something(warehouse)
    sql = "SELECT trajectory_id, count(*) AS steps, count(DISTINCT step_id) AS ids, sum(step_reward) AS rewards FROM steps"
    for _ in for_a_while():
        rows = warehouse.query(f"{sql} GROUP BY ALL").to_pylist()
        for row in rows:
            assert (row["steps"], row["ids"], row["rewards"]) == (TURNS, TURNS, TURNS) or "gone" in row[
                "trajectory_id"
            ], row
        kept = [row["trajectory_id"] for row in rows if "gone" not in row["trajectory_id"]]
        assert len(kept) >= seen
        seen = len(kept)
    return seen


def read(root: Path, name: str) -> int:
    """Steps whole, as they were said; how many."""
    warehouse, count = started(root, name), 0
    wait_for_something(warehouse)
    for _ in for_a_while():
        found = again(
            lambda: warehouse.steps("trajectory_id NOT LIKE 'gone%'", columns=["step_id", "prompt_ids"]).read_all()
        )
        check_whole(found)
        count = found.num_rows
    return count


def check_whole(found: pa.Table) -> None:
    said = {
        step.step_id: step
        for name in {id_.rpartition(".")[0] for id_ in found["step_id"].to_pylist()}
        for step in turns(name)
    }
    for row in found.select(["step_id", "prompt_ids"]).to_pylist():
        assert row["prompt_ids"] == list(said[row["step_id"]].prompt_ids or ()), row["step_id"]


def freeze(root: Path, name: str) -> dict[str, str]:
    """Datasets, some of them pinned and deleted again; the fingerprints of the others."""
    warehouse, made = started(root, name), {}
    wait_for_something(warehouse)
    for number in for_a_while():
        pinned = number % 2 == 1
        dataset = warehouse.datasets.create(name, "trajectory_id LIKE 'a-%'", pin=pinned)
        check_whole(again(lambda: warehouse.datasets.read(name, dataset.version)))  # noqa: B023
        if pinned:
            warehouse.datasets.delete(name, dataset.version, force=True)
        else:
            made[dataset.label] = dataset.fingerprint
    return made


def look(root: Path, name: str) -> int:
    """Opens it anew each time, and verifies it while the others change it; how often."""
    started(root, name)
    rounds = 0
    for _ in for_a_while():
        report = verify(str(root / "warehouse"), {})
        wrong = [str(finding) for finding in report.findings if finding.wrong]
        # What is being forgotten is half there meanwhile, and said to be.
        assert not wrong or any("a `stepwell forget` was interrupted, or is at work" in words for words in wrong), wrong
        rounds += 1
    return rounds
