from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from typing import Any

import pytest

STEP: dict[str, Any] = {"prompt_ids": [1], "response_ids": [2]}


def test_nothing_to_wait_for(api: Any) -> None:
    assert api.post("/flush").json() == {"committed": True}


def test_who_lags_is_said(api: Any, warehouse: Any) -> None:
    api.post("/steps", STEP)
    api.post("/steps", STEP)
    warehouse.committed = {api.spool.producer: 1}
    answer = api.post("/flush", {"timeout": 0.05})
    assert (answer.status_code, answer.headers["content-type"]) == (504, "application/problem+json")
    assert answer.json()["lag"] == {api.spool.producer: {"accepted": 2, "committed": 1}}
    assert api.spool.producer in answer.json()["detail"]


def test_it_returns_once_all_of_it_is_there(api: Any, warehouse: Any) -> None:
    api.post("/steps", STEP)
    threading.Timer(0.2, lambda: warehouse.committed.update({api.spool.producer: 1})).start()
    assert api.post("/flush", {"timeout": 30}).json() == {"committed": True}


def test_what_comes_later_is_not_waited_for(api: Any, warehouse: Any) -> None:
    api.post("/steps", STEP)

    def later() -> None:
        api.post("/steps", [STEP] * 5)
        warehouse.committed[api.spool.producer] = 1

    timer = threading.Timer(0.2, later)
    timer.start()
    assert api.post("/flush", {"timeout": 30}).status_code == 200
    timer.join()


def test_a_warehouse_that_is_away_is_waited_for_and_named(api: Any, warehouse: Any) -> None:
    api.post("/steps", STEP)
    warehouse.broken = True
    answer = api.post("/flush", {"timeout": 0.05})
    assert answer.status_code == 504 and "the store is away" in answer.json()["detail"]


def test_what_cannot_be_read_any_more_is_not_waited_for(api: Any, warehouse: Any) -> None:
    path = api.spool.path
    for number in range(40):
        api.post("/steps", {**STEP, "step_id": f"s{number}", "metadata": {"text": "x" * 3000}})
    warehouse.committed = {api.spool.producer: 38}
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with path.open("r+b") as file:
        whole = file.read()
        page = int.from_bytes(whole[16:18], "big")
        file.seek(whole.rindex(b'"step_id":"s39"') // page * page)
        file.write(b"\xa5" * page)
    answer = api.post("/flush", {"timeout": 600})
    assert answer.status_code == 504
    assert "all is committed but what cannot be read any more" in answer.json()["detail"]
    assert answer.json()["lag"] == {api.spool.producer: {"accepted": 40, "committed": 38}}


@pytest.mark.parametrize(
    "body", [{"timeout": -1}, {"timeout": "1"}, {"timeout": True}, {"timeout": 601}, {"time": 1}, [], 5]
)
def test_bad_timeouts(api: Any, body: Any) -> None:
    answer = api.post("/flush", body)
    assert (answer.status_code, answer.json()["field"]) == (422, "timeout")
    nan = api.post("/flush", content=b'{"timeout": NaN}', headers={"content-type": "application/json"})
    assert nan.status_code == 422
