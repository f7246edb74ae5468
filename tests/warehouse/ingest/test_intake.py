"""Records out of spools: a flush's worth, in order, fairly, and the same ones again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stepwell.errors import SpoolError
from stepwell.spool import read_cursor, write_cursor
from stepwell.warehouse._ingest import intake as intake_module
from stepwell.warehouse._ingest.intake import Intake, Taken
from stepwell.warehouse._redact.rules import Redactor


@pytest.fixture
def intake(spools: Path) -> Intake:
    return Intake(spools, Redactor())


@pytest.fixture
def steps(new_feed: Any) -> Callable[[str, int], Any]:
    """A producer with so many steps."""

    def make(name: str, count: int) -> Any:
        feed = new_feed(name)
        for number in range(1, count + 1):
            feed.step(step_id=f"{name}{number}")
        return feed

    return make


def ids(taken: Taken) -> list[str]:
    return [draft.step.step_id for draft in taken.parsed.drafts]


def test_what_is_above_the_marks(intake: Intake, steps: Any) -> None:
    one, two = steps("a", 3), steps("b", 2)
    taken = intake.read({one.producer: 1, "stranger": 7})
    assert sorted(ids(taken)) == ["a2", "a3", "b1", "b2"]
    assert taken.ranges == {one.producer: (1, 3), two.producer: (0, 2)}
    assert (taken.count, taken.size > 0) == (4, True)
    nothing = intake.read({one.producer: 3, two.producer: 2})
    assert (nothing.count, nothing.ranges) == (0, {})


def test_an_empty_folder_gives_nothing(intake: Intake) -> None:
    assert intake.read({}).count == 0


def test_the_same_records_again(intake: Intake, steps: Any) -> None:
    one, two = steps("a", 5), steps("b", 4)
    ranges = {one.producer: (1, 3), two.producer: (2, 4)}
    taken = intake.read_again(ranges)
    assert sorted(ids(taken)) == ["a2", "a3", "b3", "b4"]
    assert taken.ranges == ranges


def test_the_same_records_again_whatever_their_size(
    intake: Intake, steps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits may be others after a restart."""
    feed = steps("a", 20)
    monkeypatch.setattr(intake_module, "MAX_RECORDS", 3)
    monkeypatch.setattr(intake_module, "MAX_BYTES", 10)
    assert intake.read_again({feed.producer: (0, 20)}).count == 20


def test_records_that_were_dropped_below_do_not_matter(intake: Intake, steps: Any, spools: Path) -> None:
    """A new warehouse, and a spool of which an older one has the beginning."""
    feed = steps("a", 5)
    write_cursor(spools, {feed.producer: 2})
    feed.spool.trim(read_cursor(spools, feed.producer))
    taken = intake.read({})
    assert ids(taken) == ["a3", "a4", "a5"]
    assert intake.read_again(taken.ranges).count == 3


@pytest.mark.parametrize("missing", ["spool", "record"])
def test_records_that_are_gone_are_said(intake: Intake, steps: Any, missing: str) -> None:
    feed = steps("a", 3)
    ranges = {feed.producer: (0, 4)} if missing == "record" else {"gone": (0, 3), feed.producer: (0, 3)}
    with pytest.raises(SpoolError, match="are gone from") as caught:
        intake.read_again(ranges)
    assert "gone" in str(caught.value)


def test_a_damaged_spool_beside_is_in_nobodys_way(
    intake: Intake, steps: Any, spools: Path, caplog: pytest.LogCaptureFixture
) -> None:
    feed = steps("fine", 2)
    (spools / "broken.db").write_bytes(b"no database" * 500)
    with caplog.at_level(logging.WARNING):
        assert intake.read({}).count == 2
    assert "broken.db" in caplog.text
    assert intake.read_again({feed.producer: (0, 2)}).count == 2
    with pytest.raises(SpoolError, match=r"broken\.db"):
        intake.read_again({"lost-1": (0, 2)})


def test_no_flush_reaches_across_an_end(intake: Intake, steps: Any) -> None:
    """And a producer that has one is taken alone until it is past it."""
    one, two = steps("a", 9), steps("b", 2)
    ends = {one.producer: [4, 6], "stranger": [3]}
    marks: dict[str, int] = {}
    seen = []
    while (taken := intake.read(marks, ends)).count:
        seen.append(taken.ranges)
        marks |= {producer: upto for producer, (_, upto) in taken.ranges.items()}
    assert {one.producer: (0, 4)} in seen
    assert {one.producer: (4, 6)} in seen
    assert marks == {one.producer: 9, two.producer: 2}
    assert sum(upto - after for ranges in seen for after, upto in ranges.values()) == 11


def test_each_spool_is_the_first_in_its_turn(intake: Intake, steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MAX_RECORDS", 2)
    feeds = [steps(name, 6) for name in ("a", "b", "c")]
    first = [next(iter(intake.read({}).ranges)) for _ in range(6)]
    assert sorted(first) == sorted([feed.producer for feed in feeds] * 2)


def test_a_dead_producers_request_gets_its_end(intake: Intake, new_feed: Any) -> None:
    feed = new_feed("proxy")
    feed.request([{"role": "user", "content": "q"}])
    assert intake.read({}).count == 1
    feed.close()
    taken = intake.read({})
    assert taken.ranges == {feed.producer: (0, 2)}
    assert [draft.step.status for draft in taken.parsed.drafts] == ["aborted"]


def test_so_many_steps_are_a_flush(intake: Intake, steps: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_module, "MAX_STEPS", 3)
    one, two = steps("a", 5), steps("b", 5)
    taken = intake.read({})
    ((producer, span),) = taken.ranges.items()
    assert (taken.count, len(ids(taken)), span) == (3, 3, (0, 3)) and producer in (one.producer, two.producer)
    again = intake.read_again({producer: (0, 5)})
    assert (again.count, again.ranges) == (5, {producer: (0, 5)}), "a flush that was planned is taken whole"


def test_piece_by_piece_is_the_same(intake: Intake, new_feed: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the request that an answer is to was read in another piece."""
    monkeypatch.setattr(intake_module, "_PIECE", 1)
    feed = new_feed("proxy")
    for number in range(5):
        feed.exchange([{"role": "user", "content": f"q{number}"}])
        feed.step(step_id=f"s{number}")
    taken = intake.read({feed.producer: 2})
    assert (taken.count, taken.ranges) == (13, {feed.producer: (2, 15)})
    assert [draft.step.status for draft in taken.parsed.drafts] == ["ok"] * 9 and not taken.parsed.quarantined
    assert intake.read({feed.producer: 2}, {feed.producer: [9]}).ranges == {feed.producer: (2, 9)}
