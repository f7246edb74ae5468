from __future__ import annotations

import threading
from typing import Any

import pytest

from stepwell.errors import StoreError
from stepwell.gateway._kept import Kept


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_an_answer_counts_for_a_while_and_longer_where_it_took_long() -> None:
    clock, made = Clock(), [0]
    took = [0.0]

    def make() -> dict[str, Any]:
        made[0] += 1
        clock.now += took[0]
        return {"n": made[0]}

    kept = Kept(make, clock)
    assert [kept.get(), kept.get()] == [{"n": 1}] * 2
    clock.now += 5
    took[0] = 3.0
    assert kept.get() == {"n": 2}
    clock.now += 59
    assert kept.get() == {"n": 2}
    clock.now += 1
    assert kept.get() == {"n": 3}


def test_a_failure_is_not_kept() -> None:
    answers: list[Any] = [StoreError("away"), {"n": 1}]

    def make() -> dict[str, Any]:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return dict(answer)

    kept = Kept(make)
    with pytest.raises(StoreError):
        kept.get()
    assert kept.get() == {"n": 1}


def test_who_comes_meanwhile_gets_the_last_answer() -> None:
    clock, inside, done = Clock(), threading.Event(), threading.Event()
    made = [0]

    def make() -> dict[str, Any]:
        made[0] += 1
        if made[0] == 2:
            inside.set()
            assert done.wait(10)
        return {"n": made[0]}

    kept = Kept(make, clock)
    kept.get()
    clock.now += 60
    other = threading.Thread(target=kept.get)
    other.start()
    assert inside.wait(10)
    assert kept.get() == {"n": 1}
    done.set()
    other.join()
    assert kept.get() == {"n": 2}
