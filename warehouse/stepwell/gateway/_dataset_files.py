"""A dataset as the bytes of a file, made while it is sent: nothing is held but a piece of it."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import orjson

from stepwell.gateway._read_rows import with_json
from stepwell.gateway._warehouse import LazyWarehouse

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MEDIA", "Form", "pieces"]

Form = Literal["parquet", "jsonl", "arrow"]

MEDIA: dict[str, str] = {
    "parquet": "application/vnd.apache.parquet",
    "jsonl": "application/x-ndjson",
    "arrow": "application/vnd.apache.arrow.stream",
}
_JSON = ("messages", "tools", "response", "sampling", "usage", "metadata", "extra")


class _Sink(io.RawIOBase):
    """What a writer has written and nobody has taken yet."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._size += len(part)
        return len(part)

    def tell(self) -> int:
        return self._size

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def pieces(warehouse: LazyWarehouse, name: str, version: int, form: Form) -> Iterator[bytes]:
    """The file, piece by piece. What is found wrong meanwhile breaks it off: raises StoreError."""
    with warehouse.datasets() as datasets:
        steps = datasets.stream(name, version)
        if form == "jsonl":
            yield from _lines(steps)
        else:
            yield from _written(steps, form)


def _lines(steps: pa.RecordBatchReader) -> Iterator[bytes]:
    for batch in steps:
        for start in range(0, batch.num_rows, 64):
            rows = batch.slice(start, 64).to_pylist(maps_as_pydicts="lossy")
            yield b"".join(
                orjson.dumps(with_json(row, _JSON), option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE) for row in rows
            )


def _written(steps: pa.RecordBatchReader, form: Form) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = _Sink()
    writer: Any = (
        pq.ParquetWriter(pa.PythonFile(sink, mode="w"), steps.schema, compression="zstd")
        if form == "parquet"
        else pa.ipc.new_stream(pa.PythonFile(sink, mode="w"), steps.schema)
    )
    for batch in steps:
        writer.write_batch(batch)
        yield sink.taken()
    writer.close()
    yield sink.taken()
