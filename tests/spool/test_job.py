"""What becomes of a job, and who hears of it."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest

from stepwell.errors import SpoolError
from stepwell.spool import Entry
from stepwell.spool._job import Job

EntryOf = Callable[..., Entry]


class Told:
    """What the callbacks of one job were called with."""

    def __init__(self, *entries: Entry, after: Job | None = None) -> None:
        self.written: list[list[int]] = []
        self.refused: list[SpoolError] = []
        self.job = Job(entries, written=self.written.append, refused=self.refused.append, after=after)


def test_its_size_is_that_of_its_entries_also_when_they_are_gone(entry: EntryOf) -> None:
    one, two = entry("a", 10), entry("b", 300)
    job = Job((one, two))
    assert job.size == one.size + two.size and job.entries == (one, two)
    job.end([1, 2])
    assert job.size == one.size + two.size and not job.entries


def test_who_waits_is_told_how_it_ended(entry: EntryOf) -> None:
    kept, lost, error = Told(entry("a")), Told(entry("b")), SpoolError("full")
    kept.job.end([7])
    lost.job.refuse(error)
    assert (kept.written, kept.refused, kept.job.failed) == ([[7]], [], False)
    assert (lost.written, lost.refused, lost.job.failed) == ([], [error], True)


def test_nobody_need_wait(entry: EntryOf) -> None:
    Job((entry("a"),)).end([1])
    refused = Job((entry("b"),))
    refused.refuse(SpoolError("full"))
    assert refused.failed


def test_what_comes_after_a_refused_one_is_dropped_without_a_word(entry: EntryOf) -> None:
    asked = Told(entry("a"))
    answered = Told(entry("b"), after=asked.job)
    assert not answered.job.useless
    asked.job.refuse(SpoolError("full"))
    assert answered.job.useless
    answered.job.refuse(SpoolError("what it belongs to was refused"))
    assert answered.job.failed and not answered.refused and len(asked.refused) == 1


def test_what_comes_after_a_kept_one_may_be_refused_by_itself(entry: EntryOf) -> None:
    asked = Told(entry("a"))
    answered = Told(entry("b"), after=asked.job)
    asked.job.end([1])
    assert not answered.job.useless
    answered.job.refuse(SpoolError("full"))
    assert len(answered.refused) == 1


class Call:
    """Holds a job that tells it how it ended."""

    def __init__(self, entry: Entry, after: Job) -> None:
        self.job = Job((entry,), written=self.hear, refused=self.hear, after=after)

    def hear(self, what: object) -> None:
        pass


@pytest.mark.parametrize("end", [lambda job: job.end([2]), lambda job: job.refuse(SpoolError("full"))])
def test_an_ended_job_holds_nobody(entry: EntryOf, end: Callable[[Job], None]) -> None:
    gc.disable()  # a ring would wait for it
    try:
        call = Call(entry("b"), Job((entry("a"),)))
        end(call.job)
        gone, before = weakref.ref(call), call.job.after
        del call
        assert gone() is None and before is None
    finally:
        gc.enable()
