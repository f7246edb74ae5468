from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

from stepwell.errors import StoreError
from stepwell.gateway import _stream_feed
from stepwell.gateway._problems import Problem
from stepwell.gateway._read_rows import Rows
from stepwell.gateway._stream_feed import Feed, Position
from stepwell.gateway._warehouse import as_view

Row = tuple[str, int, str, int, str]


class Facts:
    """Steps and events of commits; `late` are committed between the look at steps and the one at events."""

    def __init__(self, *rows: Row, late: tuple[Row, ...] = ()) -> None:
        self.rows, self.late = list(rows), list(late)
        self.asked: list[str] = []

    def query(self, sql: str) -> pa.Table:
        """Instead of SQL: the rows behind the key that stands in the statement, in its order."""
        self.asked.append(sql)
        kind = "event" if "FROM events" in sql else "step"
        if kind == "event":
            self.rows, self.late = self.rows + self.late, []
        key = eval(f"({sql.rpartition('> (')[2].partition(')')[0]},)")
        mine = sorted(row[1:] for row in self.rows if row[0] == kind and row[1:][: len(key)] > key)
        many = int(sql.rpartition("LIMIT ")[2])
        found = [
            {"commit": c, "producer": p, "sequence": s, f"{kind}_id": id_, "payload": "{}"} for c, p, s, id_ in mine
        ]
        return pa.Table.from_pylist(found[:many])

    def marks(self) -> dict[str, int]:
        return {}

    def version(self) -> int:
        return max((row[1] for row in self.rows), default=0)


def read(feed: Feed, position: Position) -> list[str]:
    seen: list[str] = []
    while True:
        items, position = feed.after(position)
        seen += [item.row[f"{item.kind}_id"] for item in items]
        if not items:
            return seen


def feed_of(facts: Facts) -> Feed:
    now = iter(range(1_000_000))
    return Feed(as_view(facts), clock=lambda: float(next(now)))  # every look is a new one


ROWS: list[Row] = [
    ("event", 1, "a", 1, "opened"),
    ("step", 1, "a", 2, "s1"),
    ("step", 1, "a", 2, "s2"),
    ("event", 1, "a", 2, "reward"),
    ("event", 1, "a", 2, "said"),
    ("step", 1, "b", 1, "s3"),
    ("step", 2, "a", 3, "s4"),
    ("event", 2, "b", 2, "late"),
    ("step", 3, "a", 4, "s5"),
]
ALL = [row[4] for row in ROWS]


@pytest.mark.parametrize("many", [1, 2, 3, 100])
def test_everything_once_in_the_order_of_commit(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stream_feed, "_MANY", many)
    assert read(feed_of(Facts(*ROWS)), Position(1)) == ALL
    assert read(feed_of(Facts(*ROWS)), Position(2)) == ["s4", "late", "s5"]


@pytest.mark.parametrize("many", [2, 100])
def test_from_any_of_them_on(many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_stream_feed, "_MANY", many)
    feed, position = feed_of(Facts(*ROWS)), Position(1)
    for number in range(len(ROWS)):
        items, _ = feed.after(position)
        position = Position.of(items[0].position.cursor())
        assert read(feed, position) == ALL[number + 1 :]


def test_what_is_committed_between_two_looks_keeps_its_order() -> None:
    late: tuple[Row, ...] = (("step", 4, "a", 5, "s6"), ("event", 4, "a", 6, "after"))
    facts = Facts(*ROWS, late=late)
    assert read(feed_of(facts), Position(3)) == ["s5", "s6", "after"]


def test_clients_that_keep_up_share_a_look() -> None:
    facts = Facts(*ROWS)
    feed = feed_of(facts)
    first, second = feed.after(Position(3)), feed.after(Position(3))
    assert first == second and len(facts.asked) == 2
    assert feed.after(first[1]) == ([], Position(4)) and len(facts.asked) == 2  # nothing new: nothing is asked


class Slow(Facts):
    """Whoever looks for events behind commit 1 is held until it is let go."""

    def __init__(self) -> None:
        super().__init__(*ROWS)
        self.inside, self.go = threading.Event(), threading.Event()

    def query(self, sql: str) -> pa.Table:
        if "FROM trajectories" in sql:
            return pa.table({"trajectory_id": ["t"]})
        if "FROM events" in sql and "> (1, " in sql:
            self.inside.set()
            assert self.go.wait(10)
        return super().query(sql)


def test_one_that_catches_up_holds_neither_pages_nor_other_streams() -> None:
    slow = Slow()
    view = as_view(lambda: slow)
    feed, pages = Feed(view, clock=lambda: 0.0), Rows(view)
    found: list[Any] = []
    behind = threading.Thread(target=lambda: found.append(feed.after(Position(1))))
    behind.start()
    assert slow.inside.wait(10)
    assert pages.ask("SELECT * FROM trajectories") == [{"trajectory_id": "t"}]
    assert [item.row["step_id"] for item in feed.after(Position(3))[0]] == ["s5"]
    assert feed.after(Position(4)) == ([], Position(4)) and feed.opened(None, None) == Position(4)
    assert found == []
    slow.go.set()
    behind.join(10)
    assert len(found[0][0]) == len(ALL)


def test_two_at_one_place_look_once() -> None:
    slow = Slow()
    feed = Feed(as_view(lambda: slow), clock=lambda: 0.0)
    found: list[Any] = []
    both = [threading.Thread(target=lambda: found.append(feed.after(Position(1)))) for _ in range(2)]
    both[0].start()
    assert slow.inside.wait(10)
    both[1].start()
    both[1].join(0.05)
    slow.go.set()
    for one in both:
        one.join(10)
    assert found[0] is found[1] and len(slow.asked) == 2


def test_a_look_that_failed_is_tried_again() -> None:
    facts = Facts(*ROWS)
    feed = Feed(as_view(facts), clock=lambda: 0.0)
    query, facts.query = facts.query, lambda sql: (_ for _ in ()).throw(StoreError("away"))  # type: ignore[method-assign]
    with pytest.raises(StoreError):
        feed.after(Position(3))
    facts.query = query  # type: ignore[method-assign]
    assert [item.row["step_id"] for item in feed.after(Position(3))[0]] == ["s5"]


def test_where_it_begins() -> None:
    feed = feed_of(Facts(*ROWS))
    assert feed.opened(None, None) == Position(4)
    assert feed.opened(None, 0) == Position(1)
    assert feed.opened(None, 3) == Position(4)
    place = Position(2, "a", 3, 0, "s4")
    assert feed.opened(place.cursor(), 0) == place
    for wrong in (("x", None), (None, 4), (Position(5).cursor(), None)):
        with pytest.raises(Problem) as caught:
            feed.opened(*wrong)
        assert caught.value.status == 422 and caught.value.more["field"] in ("cursor", "since_commit")


def test_what_was_just_committed_is_not_new_to_who_comes() -> None:
    facts = Facts(*ROWS)
    feed = Feed(as_view(facts), clock=lambda: 0.0)
    feed.opened(None, None)
    facts.rows.append(("step", 4, "a", 9, "s9"))
    assert feed.opened(None, None) == Position(5)


def test_a_store_that_fails_is_asked_again(warehouse: Any) -> None:
    feed = Feed(as_view(warehouse))
    warehouse.broken = True
    with pytest.raises(StoreError):
        feed.opened(None, None)
    warehouse.broken = False
    assert feed.opened(None, None) == Position(1)
