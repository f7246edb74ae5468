"""Write a query's result (an Arrow table) as a text table, JSON, CSV or Parquet, a batch of rows at a time."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Iterator
from decimal import Decimal
from typing import IO, Any, Literal

import orjson
import pyarrow as pa

_ROWS = 500
_WIDEST = 48
"""Most characters of one cell of a text table."""
_MOST_INT = 2**63


def write(table: pa.Table, format: Literal["table", "json", "csv", "parquet"], file: IO[bytes]) -> None:
    """Write `table` to `file`.

    json: one array of objects, RFC 8259 (no NaN: null); timestamps ISO 8601 to the microsecond, binary base64.
    csv: RFC 4180 with a header; lists and structs as JSON, null empty.
    table: for reading, cells cut to one line of at most 48 characters.
    """
    if format == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, file)
        return
    table = _unique_names(table)
    {"table": _write_text, "json": _write_json, "csv": _write_csv}[format](table, file)


def _write_json(table: pa.Table, file: IO[bytes]) -> None:
    file.write(b"[")
    first = True
    for rows in _batches(table):
        for row in rows:
            file.write(b"\n" if first else b",\n")
            file.write(_json(row))
            first = False
    file.write(b"]\n" if first else b"\n]\n")


def _write_csv(table: pa.Table, file: IO[bytes]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
    try:
        writer = csv.writer(text)
        writer.writerow(table.column_names)
        for rows in _batches(table):
            writer.writerows([_flat(value) for value in row.values()] for row in rows)
    finally:
        text.detach()


def _write_text(table: pa.Table, file: IO[bytes]) -> None:
    cells = [[_cell(value) for value in row.values()] for rows in _batches(table) for row in rows]
    names = [_cell(name) for name in table.column_names]
    widths = [max(len(row[column]) for row in [names, *cells]) for column in range(len(names))]
    numeric = [_is_number(field.type) for field in table.schema]

    def line(row: list[str]) -> str:
        padded = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        )
        return "  ".join(padded).rstrip() + "\n"

    rule = "  ".join("─" * width for width in widths) + "\n"
    file.write((line(names) + rule).encode())
    for row in cells:
        file.write(line(row).encode())
    file.write(f"({table.num_rows} row{'' if table.num_rows == 1 else 's'})\n".encode())


def _batches(table: pa.Table) -> Iterator[list[dict[str, Any]]]:
    """The rows as Python values, a bounded number at a time."""
    table = table.cast(pa.schema([field.with_type(_microseconds(field.type)) for field in table.schema]), safe=False)
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield batch.to_pylist(maps_as_pydicts="lossy")


def _microseconds(type: pa.DataType) -> pa.DataType:
    """Python's own times have no nanoseconds."""
    if pa.types.is_timestamp(type) and type.unit == "ns":
        return pa.timestamp("us", type.tz)
    if pa.types.is_time64(type):
        return pa.time64("us")
    if pa.types.is_duration(type) and type.unit == "ns":
        return pa.duration("us")
    if pa.types.is_list(type):
        return pa.list_(_microseconds(type.value_type))
    if pa.types.is_struct(type):
        return pa.struct([field.with_type(_microseconds(field.type)) for field in type])
    return type


def _unique_names(table: pa.Table) -> pa.Table:
    """`select a, a`: rows as objects need two names."""
    names: list[str] = []
    taken = set(table.column_names)
    for name in table.column_names:
        new, count = name, 1
        while new in names or (count > 1 and new in taken):
            count += 1
            new = f"{name}_{count}"
        names.append(new)
    return table.rename_columns(names)


def _json(value: object) -> bytes:
    return orjson.dumps(value, default=_other, option=orjson.OPT_NON_STR_KEYS)


def _other(value: object) -> object:
    """What JSON has no type for."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        whole = int(value) if value == value.to_integral_value() else None
        return (
            whole
            if whole is not None and -_MOST_INT <= whole < _MOST_INT
            else float(value)
            if whole is None
            else str(value)
        )
    return str(value)


def _flat(value: object) -> object:
    """One CSV field."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str | int | float | Decimal):
        return value
    text = _json(value).decode()
    return text if isinstance(value, list | dict | tuple) else text.strip('"')


def _cell(value: object) -> str:
    """One line of printable characters: what agents wrote must not steer the reader's terminal."""
    if value is None:
        return ""
    text = str(_flat(value))
    shown = text[: _WIDEST + 1]
    shown = "".join(letter if letter.isprintable() else _escaped(letter) for letter in shown)
    return shown if len(shown) <= _WIDEST else shown[: _WIDEST - 1] + "…"


def _escaped(letter: str) -> str:
    return letter.encode("unicode_escape").decode()


def _is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_floating(type) or pa.types.is_decimal(type))
