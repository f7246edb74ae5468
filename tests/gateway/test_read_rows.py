from __future__ import annotations

import threading
from typing import Any

import orjson
import pyarrow as pa
import pytest

from stepwell.gateway import _read_rows
from stepwell.gateway._problems import Problem, json_response
from stepwell.gateway._read_rows import Rows, equal, page_sql, with_json
from stepwell.gateway._warehouse import as_view


def test_json_is_given_as_it_stands() -> None:
    row = {"a": '{"n": 123456789012345678901234567890, "x": 1.10}', "b": "[", "c": '["\\ud800"]', "d": None, "e": "[1]"}
    body = bytes(json_response(with_json(row, ["a", "b", "c", "d"])).body)
    assert b'"a":{"n": 123456789012345678901234567890, "x": 1.10}' in body
    assert {**orjson.loads(body), "a": None} == {**row, "a": None}  # what no reader takes is a text


def test_a_condition_per_filter() -> None:
    assert equal(a="x'y", b=None) == ["a = 'x''y'"]


def test_a_page_may_begin_behind_the_first_columns() -> None:
    sql = page_sql("SELECT * FROM t", ["x"], ("a", "b"), [3], "oldest", 5)
    assert sql == 'SELECT * FROM t WHERE x AND ("a") > (3) ORDER BY "a" ASC, "b" ASC LIMIT 6'


def test_one_row_by_its_id(warehouse: Any) -> None:
    rows = Rows(as_view(warehouse))
    warehouse.rows = [{"step_id": "it's"}]
    assert rows.one("SELECT * FROM steps", "step", "it's") == {"step_id": "it's"}
    assert warehouse.asked == ["SELECT * FROM steps WHERE step_id = 'it''s'"]
    warehouse.rows = []
    with pytest.raises(Problem, match="there is no group 'g'") as caught:
        rows.one("SELECT * FROM groups", "group", "g")
    assert caught.value.status == 404


def test_a_page_and_where_the_next_one_begins(warehouse: Any) -> None:
    rows = Rows(as_view(warehouse))
    warehouse.rows = [{"a": 1, "b": "x", "c": 0.5}, {"a": 1, "b": "y'", "c": 0.5}, {"a": 2, "b": "x", "c": 0.5}]

    def page(limit: int, cursor: str | None = None) -> Any:
        return orjson.loads(rows.page("SELECT *", [], {"a": int, "b": str}, cursor=cursor, limit=limit).body)

    first = page(2)
    assert first["items"] == warehouse.rows[:2]
    assert page(3) == {"items": warehouse.rows, "next": None}
    page(2, first["next"])
    assert warehouse.asked[-1] == """SELECT * WHERE ("a", "b") > (1, 'y''') ORDER BY "a" ASC, "b" ASC LIMIT 3"""
    with pytest.raises(Problem) as caught:
        rows.page("SELECT *", [], {"b": str}, cursor=first["next"], limit=2)
    assert (caught.value.status, caught.value.more["field"]) == (422, "cursor")


def test_no_more_than_some_wait(monkeypatch: pytest.MonkeyPatch, warehouse: Any) -> None:
    inside, done = threading.Event(), threading.Event()

    class Slow:
        def query(self, sql: str) -> pa.Table:
            inside.set()
            done.wait(10)
            return pa.table({"a": [1]})

        def marks(self) -> dict[str, int]:
            return {}

        def version(self) -> int:
            return 0

    monkeypatch.setattr(_read_rows, "_READING", 1)
    rows = Rows(as_view(Slow()))
    first = threading.Thread(target=rows.ask, args=("SELECT 1",))
    first.start()
    assert inside.wait(10)
    with pytest.raises(Problem, match="come again") as caught:
        rows.ask("SELECT 1")
    assert (caught.value.status, caught.value.headers) == (503, {"retry-after": "1"})
    done.set()
    first.join()
    assert rows.ask("SELECT 1") == [{"a": 1}]
    warehouse.broken = True
    broken = Rows(as_view(warehouse))
    for _ in range(3):  # a failure gives its place back
        with pytest.raises(Exception, match="away"):
            broken.ask("SELECT 1")
