from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from stepwell.sdk._outbox import Item, Outbox
from stepwell.sdk._post import Again, Answer, Refusal, Settled, TooMuch
from stepwell.sdk._sending import LAST_PAUSE, Sender


class Scripted:
    """Answers by a script, then takes everything."""

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)
        self.batches: list[list[str]] = []

    def post(self, items: Sequence[Item]) -> Answer:
        self.batches.append([item.id for item in items])
        answer = self.answers.pop(0) if self.answers else Settled(len(items))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        pass


class Clock:
    """Stands in for the event that pauses wait on: notes the seconds, waits for none."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return False

    def is_set(self) -> bool:
        return False

    def set(self) -> None:
        pass


def sent(poster: Scripted, count: int = 4) -> tuple[Sender, Clock]:
    """`count` records put through a sender and its thread, to the end."""
    box = Outbox(1 << 20)
    sender, clock = Sender(box, poster), Clock()  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    sender._stop = clock  # type: ignore[assignment]  # pyright: ignore[reportAttributeAccessIssue]
    for number in range(count):
        box.put(Item("step", str(number), b"{}"))
    sender.start()
    sender.start()
    assert box.wait(30) == 0
    sender.stop(30)
    return sender, clock


def test_all_is_delivered_once_and_in_order() -> None:
    poster = Scripted()
    sender, clock = sent(poster)
    assert poster.batches == [["0", "1", "2", "3"]]
    assert sender.counts.acknowledged == 4 and not clock.pauses


def test_a_failed_attempt_is_repeated_with_growing_pauses() -> None:
    poster = Scripted(*[Again("away")] * 30)
    sender, clock = sent(poster)
    assert poster.batches == [["0", "1", "2", "3"]] * 31
    assert len(clock.pauses) >= 30 and sum(clock.pauses) <= 30 * LAST_PAUSE
    assert clock.pauses[0] <= 0.1 < max(clock.pauses)
    assert sender.counts.acknowledged == 4 and sender.counts.problem is None


def test_the_gateways_own_time_is_kept_to() -> None:
    _, clock = sent(Scripted(Again("full", after=7.0)))
    assert 7.0 < sum(clock.pauses) <= 7.0 + LAST_PAUSE


def test_a_refused_record_is_not_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    refusals = [Refusal("1", "reward", "is too much"), Refusal("2", "split", "is none")]
    poster = Scripted(Settled(2, 0, refusals))
    sender, _ = sent(poster)
    assert poster.batches == [["0", "1", "2", "3"]]
    assert (sender.counts.acknowledged, sender.counts.refused, sender.counts.refusal) == (2, 2, refusals[0])
    assert [record.getMessage() for record in caplog.records if "reward is too much" in record.getMessage()]
    assert "split" not in caplog.text  # logged once, then counted


def test_a_request_that_is_too_large_is_cut_until_the_one_to_blame_is_alone() -> None:
    class Heavy(Scripted):
        def post(self, items: Sequence[Item]) -> Answer:
            super().post(items)
            return TooMuch("too large") if "2" in self.batches[-1] else Settled(len(items))

    poster = Heavy()
    sender, clock = sent(poster)
    assert (sender.counts.acknowledged, sender.counts.refused) == (3, 1)
    assert sender.counts.refusal == Refusal("2", "", "too large")
    assert poster.batches[-1] == ["3"] and not clock.pauses


def test_trouble_is_logged_once_until_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stepwell.sdk")
    sent(Scripted(Again("away"), Again("away"), Settled(4)))
    assert [record.getMessage() for record in caplog.records if record.name == "stepwell.sdk"] == [
        "away; records wait and are sent again",
        "delivery works again",
    ]


def test_a_bug_in_delivery_does_not_end_it(caplog: pytest.LogCaptureFixture) -> None:
    sender, _ = sent(Scripted(KeyError("oh")))
    assert sender.counts.acknowledged == 4
    assert "failed unexpectedly" in caplog.text


def test_without_a_thread_nothing_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: object) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr("threading.Thread.start", refuse)
    sender = Sender(Outbox(100), Scripted())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    sender.start()
    assert "interpreter shutdown" in str(sender.counts.problem)
    sender.stop(0)
