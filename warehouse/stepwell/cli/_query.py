"""`stepwell query`: SQL over the warehouse, read-only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated, Literal

import typer

from stepwell.cli import _options as options
from stepwell.errors import SettingsError

Format = Literal["table", "json", "csv", "parquet"]


def query(
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="A select, in DuckDB's SQL; `-` reads it from standard input")
    ],
    format: Annotated[Format, typer.Option("--format", "-f", help="How to write the result")] = "table",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to FILE instead of stdout")
    ] = None,
    at: options.At = None,
    config: options.Config = None,
    data: options.Data = None,
    warehouse: options.Warehouse = None,
) -> None:
    """Ask the warehouse a question in SQL, without changing anything.

    Tables: steps, events, feedback, trajectories, groups, datasets, dataset_rows, quarantine, exchanges. `table` cuts wide cells short;
    `json` is one array of objects (times as ISO 8601, binary as base64); `csv` and `parquet` carry everything.

    Examples: `stepwell query "select split, count(*) from steps group by split"`

    `stepwell query "select * from steps where trajectory_id = 'abc'" --format parquet --output steps.parquet`
    """
    from stepwell.cli._opened import opened
    from stepwell.cli._settings import load_settings

    if format == "parquet" and output is None and sys.stdout.isatty():
        raise SettingsError("parquet is binary: name a file with --output, or redirect standard output")
    settings = load_settings(config, data=data, warehouse=warehouse)
    from stepwell.cli._result import write

    result = opened(settings).query(sys.stdin.read() if sql == "-" else sql, at=at)
    with _target(output) as file:
        write(result, format, file)


@contextmanager
def _target(output: Path | None) -> Iterator[IO[bytes]]:
    """Standard output, or a file that appears when it is whole."""
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    ordinary = output.is_file() or not output.exists()
    scratch = output.with_name(f".{output.name}.part") if ordinary else output  # else a pipe or a device
    try:
        with scratch.open("wb") as file:
            yield file
        if scratch != output:
            scratch.replace(output)
    except OSError as error:
        raise SettingsError(f"cannot write to {output}: {error.strerror or error}") from error
    finally:
        if scratch != output:
            scratch.unlink(missing_ok=True)
