"""`stepwell flush`: the barrier."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import main
from stepwell.cli._flush import wait_committed
from stepwell.errors import DeliveryError, StoreError
from stepwell.spool import Entry, Spool, read_cursor


def test_it_returns_when_all_have_caught_up() -> None:
    answers: list[Any] = [{}, StoreError("away"), {"a": 3}, {"a": 3, "b": 9}]

    def committed() -> dict[str, int]:
        answer = answers.pop(0)
        if isinstance(answer, StoreError):
            raise answer
        return dict(answer)

    wait_committed({"a": 3, "b": 5}, committed, timeout=60)
    assert not answers


def test_who_lags_is_said_when_the_time_is_up() -> None:
    with pytest.raises(DeliveryError, match=r"not committed after 0 s: 4 of a, 2 of c; is ingest running"):
        wait_committed({"a": 5, "b": 5, "c": 2}, lambda: {"a": 1, "b": 5}, timeout=0)


def test_what_the_store_said_is_passed_on() -> None:
    def away() -> dict[str, int]:
        raise StoreError("the bucket is gone")

    with pytest.raises(DeliveryError, match="the bucket is gone"):
        wait_committed({"a": 1}, away, timeout=0)


def test_what_is_damaged_is_waited_for_no_longer_than_the_rest() -> None:
    marks = [{"a": 1, "b": 1}, {"a": 3, "b": 1}, {"a": 3, "b": 5}]
    asked: list[Mapping[str, int]] = []

    def damaged(after: Mapping[str, int]) -> dict[str, str]:
        asked.append(after)
        return {"a": "a page of a.db is gone"} if after.get("a") == 3 else {}

    with pytest.raises(DeliveryError) as raised:
        wait_committed({"a": 5, "b": 5}, lambda: marks.pop(0) if marks[1:] else marks[0], timeout=60, damaged=damaged)
    expected = "all is committed but what cannot be read any more: 2 records of a (a page of a.db is gone)"
    assert str(raised.value) == expected
    assert asked[0] == {"a": 1, "b": 1} and asked[-1] == {"a": 3}


def test_while_the_store_is_away_nothing_is_said_to_be_lost() -> None:
    def away() -> dict[str, int]:
        raise StoreError("the bucket is gone")

    with pytest.raises(DeliveryError, match="not committed after 0 s: 1 of a; the bucket is gone"):
        wait_committed({"a": 1}, away, timeout=0, damaged=lambda after: dict.fromkeys(after, "damaged"))


def test_a_damaged_end_of_a_spool_is_said_at_once(place: Path, capfd: Any) -> None:
    pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")
    from stepwell.warehouse import Ingest, Warehouse

    spools = place / "stepwell-data" / "spool"
    path = spools / "gateway.db"
    with Spool(path) as spool:
        for number in range(40):
            step = {"step_id": f"s{number}", "response": "x" * 3000}
            spool.append([Entry(id=f"step.{number}", kind="step", body=json.dumps(step).encode())])
        producer = spool.producer
    whole = path.read_bytes()
    page = int.from_bytes(whole[16:18], "big")
    with path.open("r+b") as file:
        file.seek(whole.rindex(b'"step_id": "s39"') // page * page)
        file.write(b"\xa5" * page)
    worker = Ingest(Warehouse.open(place / "stepwell-data" / "warehouse"), spools)
    while worker.run_once():
        pass
    worker.close()
    done = read_cursor(spools, producer)
    assert 30 < done < 40
    assert main(["flush", "--timeout", "3600"]) == 1
    said = capfd.readouterr().err
    assert f"all is committed but what cannot be read any more: {40 - done} records of {producer}" in said
    assert str(path) in said and f"above record {done}" in said


def test_with_nothing_accepted_there_is_nothing_to_wait_for(place: Path, capfd: Any) -> None:
    (place / "stepwell-data").mkdir()
    assert main(["flush", "--timeout", "0"]) == 0
    assert not list((place / "stepwell-data").iterdir())


def test_a_data_folder_that_is_not_there_is_said(place: Path, capfd: Any) -> None:
    assert main(["flush", "--data", "elsewhere"]) == 2
    error = capfd.readouterr().err
    assert "there is no data folder" in error and "elsewhere" in error
    assert error.count("\n") == 1
    assert not (place / "elsewhere").exists()


def test_with_ingest_it_waits_and_without_it_gives_up(place: Path, capfd: Any) -> None:
    pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")
    from stepwell.warehouse import IngestConfig, run_ingest

    data = place / "stepwell-data"
    step = {"step_id": "s1", "messages": [{"role": "user", "content": "hi"}], "response": "hello"}
    with Spool(data / "spool" / "gateway.db") as spool:
        spool.append([Entry(id="step.s1", kind="step", body=json.dumps(step).encode())])
    assert main(["flush", "--timeout", "0"]) == 1
    assert "1 of gateway-" in capfd.readouterr().err
    stop = threading.Event()
    uri = str(data / "warehouse")
    options: dict[str, Any] = {
        "data": data,
        "warehouse": uri,
        "storage_options": {},
        "ready": lambda _: None,
        "stop": stop,
    }
    ingest = threading.Thread(target=run_ingest, args=(IngestConfig(),), kwargs=options)
    ingest.start()
    try:
        assert main(["flush", "--timeout", "60"]) == 0
        assert main(["query", "select step_id from steps", "-f", "csv"]) == 0
        assert capfd.readouterr().out.split() == ["step_id", "s1"]
    finally:
        stop.set()
        ingest.join()
