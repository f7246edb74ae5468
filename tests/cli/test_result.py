"""A query's result in every format."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepwell.cli._result import write

Format = Literal["table", "json", "csv", "parquet"]


def written(table: pa.Table, format: Format) -> bytes:
    file = io.BytesIO()
    write(table, format, file)
    return file.getvalue()


def strict(text: bytes) -> Any:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


EVERYTHING = pa.table(
    {
        "id": pa.array(["a", None]),
        "count": pa.array([2**62, -1], pa.int64()),
        "ratio": pa.array([0.5, math.nan], pa.float32()),
        "ok": pa.array([True, False]),
        "at": pa.array([datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)] * 2, pa.timestamp("us", "UTC")),
        "day": pa.array([date(2026, 1, 2)] * 2),
        "raw": pa.array([b"\x00\xff", b""]),
        "total": pa.array([Decimal("123456789012345678901234"), Decimal(7)], pa.decimal128(38, 0)),
        "ids": pa.array([[1, 2], []], pa.list_(pa.int32())),
        "nested": pa.array([{"x": 1, "y": ["ü"]}, None]),
    }
)


def test_json_is_an_array_of_objects_in_strict_json() -> None:
    first, second = strict(written(EVERYTHING, "json"))
    assert first == {
        "id": "a",
        "count": 2**62,
        "ratio": 0.5,
        "ok": True,
        "at": "2026-01-02T03:04:05.678901+00:00",
        "day": "2026-01-02",
        "raw": base64.b64encode(b"\x00\xff").decode(),
        "total": "123456789012345678901234",
        "ids": [1, 2],
        "nested": {"x": 1, "y": ["ü"]},
    }
    assert second["ratio"] is None
    assert second["total"] == 7


def test_json_of_nothing_is_an_empty_array() -> None:
    assert strict(written(EVERYTHING.slice(0, 0), "json")) == []


def test_many_rows_come_whole_in_order() -> None:
    table = pa.table({"n": range(1234)})
    assert [row["n"] for row in strict(written(table, "json"))] == list(range(1234))
    assert len(written(table, "csv").splitlines()) == 1235


def test_csv_carries_everything() -> None:
    header, first, second = csv.reader(io.StringIO(written(EVERYTHING, "csv").decode(), newline=""))
    row = dict(zip(header, first, strict=True))
    assert row["at"] == "2026-01-02T03:04:05.678901+00:00"
    assert row["ok"] == "true"
    assert json.loads(row["nested"]) == {"x": 1, "y": ["ü"]}
    assert json.loads(row["ids"]) == [1, 2]
    assert row["total"] == "123456789012345678901234"
    assert dict(zip(header, second, strict=True))["id"] == ""


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1))
def test_any_text_survives_csv_and_json(values: list[str]) -> None:
    table = pa.table({"text": pa.array(values, pa.string()), "n": range(len(values))})
    rows = list(csv.reader(io.StringIO(written(table, "csv").decode(), newline="")))[1:]
    assert [row[0] for row in rows] == values
    assert [row["text"] for row in strict(written(table, "json"))] == values


def test_parquet_is_the_table_itself() -> None:
    table = EVERYTHING.drop_columns(
        ["ratio", "nested"]
    )  # NaN differs from itself, and Parquet has its own name for list items
    assert pq.read_table(io.BytesIO(written(table, "parquet"))).cast(table.schema).equals(table)


def test_columns_of_one_name_are_told_apart() -> None:
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "a_2"])
    (row,) = strict(written(table, "json"))
    assert row == {"a": 1, "a_3": 2, "a_2": 3}


@pytest.mark.parametrize(
    "array",
    [
        pa.array([datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("ns", "UTC")).cast(pa.timestamp("ns", "UTC")),
        pa.array([[1_700_000_000_000_000_001]], pa.list_(pa.timestamp("ns"))),
        pa.array([{"at": 1_700_000_000_000_000_001}], pa.struct([("at", pa.timestamp("ns"))])),
        pa.array([timedelta(seconds=1)], pa.duration("ns")),
        pa.array([1001], pa.time64("ns")),
        pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64())),
    ],
)
def test_types_that_python_has_less_of_are_written(array: pa.Array) -> None:
    table = pa.table({"value": array})
    (row,) = strict(written(table, "json"))
    assert row["value"] is not None
    assert len(written(table, "csv").splitlines()) == 2


def test_the_table_for_reading_is_aligned_and_cut() -> None:
    table = pa.table({"name": ["short", "x" * 100], "n": [5, 12345]})
    lines = written(table, "table").decode().splitlines()
    assert lines[0].split() == ["name", "n"]
    assert lines[2].endswith("     5")
    assert lines[3] == "x" * 47 + "…  12345"
    assert lines[-1] == "(2 rows)"


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_a_cell_is_one_line_that_cannot_steer_the_terminal(value: str) -> None:
    text = written(pa.table({"c": pa.array([value], pa.string())}), "table").decode()
    assert len(text.split("\n")) == 5
    assert all(letter.isprintable() for line in text.split("\n") for letter in line)
    assert max(len(line) for line in text.split("\n")) <= 48
