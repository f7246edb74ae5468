"""`stepwell flush`: the barrier."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from stepwell.cli import main
from stepwell.cli._flush import wait_committed
from stepwell.errors import DeliveryError, StoreError
from stepwell.spool import Entry, Spool


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
