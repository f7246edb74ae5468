"""`stepwell query` against a real warehouse."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from stepwell.cli import main

pytest.importorskip("lancedb", reason="the warehouse's packages are not installed")


def test_the_answer_goes_to_stdout(warehouse: Path, capfdbinary: Any) -> None:
    assert main(["query", "select 1 as one, 'two' as two", "--format", "json"]) == 0
    assert json.loads(capfdbinary.readouterr().out) == [{"one": 1, "two": "two"}]


def test_a_table_is_the_default(warehouse: Path, capfdbinary: Any) -> None:
    assert main(["query", "select count(*) as steps from steps"]) == 0
    assert capfdbinary.readouterr().out.decode().splitlines() == ["steps", "─────", "    0", "(1 row)"]


@pytest.mark.parametrize("sql", ["selec 1", "drop table steps", "select nothing from steps", "select 1; select 2"])
def test_a_bad_query_is_one_line_and_1(warehouse: Path, capfd: Any, sql: str) -> None:
    assert main(["query", sql]) == 1
    out, error = capfd.readouterr()
    assert out == ""
    assert len(error.splitlines()) == 1
    assert error.startswith("stepwell: ")


def test_a_file_gets_the_result_and_nothing_beside_it(warehouse: Path, place: Path, capfd: Any) -> None:
    assert main(["query", "select 7 as n", "-f", "parquet", "--output", "out.parquet"]) == 0
    assert pq.read_table(place / "out.parquet").to_pylist() == [{"n": 7}]
    assert sorted(path.name for path in place.iterdir()) == ["out.parquet", "stepwell-data"]
    assert capfd.readouterr().out == ""


def test_a_file_that_cannot_be_written_is_said(warehouse: Path, capfd: Any) -> None:
    assert main(["query", "select 1", "--output", "no/such/folder/file"]) == 2
    assert "cannot write to no/such/folder/file" in capfd.readouterr().err


def test_parquet_is_not_written_to_a_terminal(warehouse: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert main(["query", "select 1", "--format", "parquet"]) == 2
    assert "--output" in capfd.readouterr().err


def test_parquet_may_be_piped(warehouse: Path, stepwell: Callable[..., Any]) -> None:
    done = stepwell("query", "select 1 as n", "--format", "parquet", text=False)
    assert done.stdout[:4] == b"PAR1"


def test_sql_may_come_from_standard_input(warehouse: Path, stepwell: Callable[..., Any]) -> None:
    assert json.loads(stepwell("query", "-", "--format", "json", input="select 5 as n").stdout) == [{"n": 5}]


def test_where_there_is_no_warehouse_none_is_made(place: Path, capfd: Any) -> None:
    assert main(["query", "select 1"]) == 2
    assert "no warehouse" in capfd.readouterr().err
    assert not (place / "stepwell-data").exists()


def test_a_store_that_cannot_be_reached_is_one_line_and_2(monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "STEPWELL_STORE__REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STEPWELL_STORE__ENDPOINT", "http://127.0.0.1:9")
    assert main(["query", "select 1", "--warehouse", "s3://bucket/prefix"]) == 2
    assert len(capfd.readouterr().err.splitlines()) == 1


def test_a_reader_that_goes_away_is_no_traceback(warehouse: Path) -> None:
    command = [sys.executable, "-m", "stepwell.cli", "query", "select range as n from range(300000)", "-f", "csv"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ.copy()) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"n\r\n"
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 1
