"""Threads and pools are in the block that they are used in, and in no other."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stepwell import sdk
from stepwell.testing import recorded


def named() -> str | None:
    """The block of the caller, by its id."""
    found = sdk.current_trajectory()
    return None if found is None else found.id


def in_thread(work: Callable[[], object]) -> list[Any]:
    """What `work` gives in a thread that is started here."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found


@pytest.fixture(autouse=True)
def records() -> Any:
    with recorded() as records:
        yield records


def test_a_thread_is_in_the_block_that_it_was_started_in(records: Any) -> None:
    def step() -> str:
        return sdk.submit_step(prompt_ids=[1], response_ids=[2])

    with sdk.trajectory("t"):
        in_thread(lambda: in_thread(step))
        in_thread(lambda: asyncio.run(asyncio.to_thread(step)))
    in_thread(step)
    assert [body.get("trajectory_id") for body in records.steps] == ["t", "t", None]


def test_many_at_once_are_not_mixed_up() -> None:
    found: dict[str, list[str | None]] = {}
    ready = threading.Barrier(8)

    def rollout(name: str) -> None:
        with sdk.trajectory(name):
            ready.wait()
            found[name] = [*in_thread(named), *in_thread(lambda: in_thread(named)[0])]
            ready.wait()

    threads = [threading.Thread(target=rollout, args=(f"t{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {f"t{number}": [f"t{number}"] * 2 for number in range(8)}


def test_the_only_open_block_is_not_that_of_a_thread_from_elsewhere() -> None:
    """One that judges, serves or cleans up beside a rollout is no part of it."""
    go, found = threading.Event(), []
    thread = threading.Thread(target=lambda: found.append((go.wait(10), named())))
    thread.start()
    with sdk.trajectory():
        go.set()
        thread.join()
    assert found == [(True, None)]


def test_a_thread_that_outlives_its_block_is_in_the_one_around_that_as_long_as_it_is_open() -> None:
    steps = [threading.Barrier(2) for _ in range(3)]
    found: list[str | None] = []

    def work() -> None:
        for step in steps:
            step.wait()
            found.append(named())
            with sdk.trajectory("own"):
                assert named() == "own"
            assert named() == found[-1]
            step.wait()

    with sdk.trajectory("outer"):
        with sdk.trajectory("inner"):
            thread = threading.Thread(target=work)
            thread.start()
            for _ in range(2):
                steps[0].wait()
        for _ in range(2):
            steps[1].wait()
    with sdk.trajectory("later"):
        for _ in range(2):
            steps[2].wait()
        thread.join()
    assert found == ["inner", "outer", None]


def test_a_pool_works_in_the_block_that_it_is_asked_in() -> None:
    with ThreadPoolExecutor(1) as pool:
        with sdk.trajectory("one"):
            assert pool.submit(named).result() == "one"  # starts the worker
            assert list(pool.map(lambda _: named(), range(2))) == ["one"] * 2
            with sdk.trajectory("two"):
                assert pool.submit(named).result() == "two"
            assert in_thread(lambda: pool.submit(named).result()) == ["one"]
        assert pool.submit(named).result() is None


def test_a_pool_that_others_use_meanwhile_is_nobodys() -> None:
    inside, asked = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:

        def rollout() -> None:
            with sdk.trajectory("t"):
                assert pool.submit(named).result() == "t"
                inside.set()
                asked.wait(10)

        thread = threading.Thread(target=rollout)
        thread.start()
        assert inside.wait(10)
        assert pool.submit(named).result() is None
        asked.set()
        thread.join()


def test_a_pool_gives_back_what_the_work_gives() -> None:
    def work(first: int, *, function: int) -> int:
        return first // function

    with sdk.trajectory(), ThreadPoolExecutor(1) as pool:
        assert pool.submit(work, 6, function=3).result() == 2
        with pytest.raises(ZeroDivisionError):
            pool.submit(work, 6, function=0).result()
        with pytest.raises(TypeError):
            pool.submit()  # type: ignore[call-arg]
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(work, 6, function=3)


async def test_executors_of_the_event_loop() -> None:
    async with sdk.trajectory("t"):
        assert await asyncio.get_running_loop().run_in_executor(None, named) == "t"
        assert await asyncio.to_thread(named) == "t"
    assert await asyncio.get_running_loop().run_in_executor(None, named) is None


def test_a_thread_is_started_once_and_as_before() -> None:
    class Own(threading.Thread):
        found: str | None = None

        def run(self) -> None:
            self.found = named()

    with sdk.trajectory("t"):
        thread = Own()
        thread.start()
        thread.join()
        assert thread.found == "t" and "run" not in vars(thread)
        with pytest.raises(RuntimeError, match="only be started once"):
            thread.start()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_a_forked_child_is_in_the_block_and_does_not_end_it(gateway: Any, token: str) -> None:
    code = """
import os, sys
from stepwell import sdk
sdk.configure(sys.argv[1], sys.argv[2])
with sdk.trajectory("t"):
    if (child := os.fork()) == 0:
        sdk.submit_step(prompt_ids=[1], response_ids=[2])
        sys.exit(3)
    os.waitpid(child, 0)
    sdk.flush()
"""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code, gateway.url, token]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [body["trajectory_id"] for body in gateway.bodies("step")] == ["t"]
    assert [body["state"] for body in gateway.bodies("trajectory")] == ["open", "completed"]
