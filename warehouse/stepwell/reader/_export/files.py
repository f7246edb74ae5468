"""Record batches into files of about equal size: Parquet, JSON lines or a Lance dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import orjson
import pyarrow as pa

from stepwell.errors import InvalidRecord

Format = Literal["parquet", "jsonl", "lance"]

_GROUP_BYTES = 64 << 20
"""Gathered before it is written: a row group, or a fragment of a Lance dataset."""
_FILE_BYTES = 512 << 20
"""Of a Parquet or JSON file, as it is in memory."""
_ROWS = 64
"""Made into JSON at a time."""


def check_format(to: str) -> None:
    """Raises InvalidRecord for a format that is none of the three."""
    if to not in get_args(Format):
        raise InvalidRecord("to", f"is {to!r}; must be one of {', '.join(get_args(Format))}")


def pattern(to: Format) -> str:
    """Which files of an export hold its rows, as the front matter of its card names them; of a Lance dataset all."""
    return "data/train.lance/**" if to == "lance" else f"data/train-*.{to}"


def write(batches: Iterable[pa.RecordBatch], schema: pa.Schema, folder: Path, to: Format) -> list[Path]:
    """Write them to `folder`/data; the files with rows, in order. A Lance dataset counts as one."""
    data = folder / "data"
    data.mkdir()
    gathered = _gathered(batches, schema)
    if to == "lance":
        return [_lance(gathered, schema, data / "train.lance")]
    return _sharded(gathered, data, _parquet if to == "parquet" else _json_lines, to)


def _gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= _GROUP_BYTES:
            yield pa.Table.from_batches(waiting, schema)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting, schema)


def _sharded(
    tables: Iterator[pa.Table], data: Path, one: Callable[[Iterator[pa.Table], Path], None], suffix: str
) -> list[Path]:
    made: list[Path] = []
    for first in tables:
        made.append(data / f"train-{len(made):05}.{suffix}")
        one(_until_full(first, tables), made[-1])
    return made


def _until_full(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """`first`, and as many of the others as a file takes."""
    yield first
    size = first.nbytes
    while size < _FILE_BYTES and (table := next(rest, None)) is not None:
        yield table
        size += table.nbytes


def _parquet(tables: Iterator[pa.Table], path: Path) -> None:
    import pyarrow.parquet as pq

    first = next(tables)
    with pq.ParquetWriter(path, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)


def _json_lines(tables: Iterator[pa.Table], path: Path) -> None:
    with path.open("wb") as file:
        for table in tables:
            for batch in table.to_batches(max_chunksize=_ROWS):
                columns = [_values(batch.column(name)) for name in batch.schema.names]
                for row in zip(*columns, strict=True):
                    file.write(orjson.dumps(dict(zip(batch.schema.names, row, strict=True)), option=_AS_JSON))


_AS_JSON = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE


def _values(column: pa.Array) -> Iterator[Any]:
    """A value per row; lists of numbers as numpy, so that float32 is written in as few digits as give it back."""
    kind = column.type
    if not pa.types.is_list(kind) or pa.types.is_string(kind.value_type) or column.flatten().null_count:
        yield from column.to_pylist()
        return
    flat, offsets = column.flatten().to_numpy(zero_copy_only=False), column.offsets.to_numpy()
    offsets = offsets - offsets[0]
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        yield flat[start:stop]


def _lance(tables: Iterator[pa.Table], schema: pa.Schema, path: Path) -> Path:
    """Fragments as they come, and one commit when all are there."""
    import lance

    fragments: list[Any] = []
    for table in tables:
        fragments += lance.fragment.write_fragments(table, str(path), schema=schema, mode="create")
    lance.LanceDataset.commit(str(path), lance.LanceOperation.Overwrite(schema, fragments))
    return path
