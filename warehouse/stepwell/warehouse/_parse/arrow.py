"""Many steps in one record: the kind `steps`, whose body is an Arrow IPC stream, one row per step.

The columns are the fields of `stepwell.sdk.records.Step`, under the same names; each may be left out, and a null is a field left out.

    prompt_ids, response_ids                     list<int32>; large_list and other integers too
    logprobs                                     list<float32>; large_list and float64 too
    messages, response, tools, sampling,         string: JSON, of what the field takes; `response` may be the JSON of a plain text
    usage, metadata, extra
    policy_version                               int64; other integers too, as far as they fit
    reward                                       float64; float32 and integers too
    trainable                                    bool
    started_at, first_byte_at,                   timestamp with a time zone, of any unit
    first_token_at, finished_at
    all others (step_id, trajectory_id, …)       string, large or of a dictionary too

A step without `step_id` is called `<id of the record>.<row>`, rows counted from 0. Rows are taken in their order: turns of a trajectory
come one after the other. At most `MAX_ROWS` rows, and `MAX_BYTES` when it is read.

What a row must be is what a `Step` must be. Rows are looked at column by column; one that is not plainly right is made a `Step`, which
finds the fault, or that there is none. A row at fault is quarantined alone, as a stream of its own; a stream that cannot be read, or has
other columns, is quarantined whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pyarrow as pa

from stepwell.errors import InvalidRecord
from stepwell.exchange import Unparseable
from stepwell.warehouse._parse.step_columns import StepColumns

MAX_ROWS = 16_384
MAX_BYTES = 512 << 20

STEPS_RECORD = StepColumns.RECORD
"""The kind of such a record."""

IDS, LISTS, OBJECTS = StepColumns.IDS, StepColumns.LISTS, StepColumns.OBJECTS
JSON, TIMES, TEXTS = StepColumns.JSON, StepColumns.TIMES, StepColumns.TEXTS


def read_rows(body: bytes) -> pa.RecordBatch:
    """The rows of a body. Texts are strings, JSON is binary, times are UTC in microseconds; lists stay as they came.

    Raises:
        Unparseable: it is no such stream.
    """
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    try:
        with pa.ipc.open_stream(body) as stream:
            for batch in stream:
                rows += batch.num_rows
                _require_small(rows, size + batch.nbytes)
                batch.validate(full=True)
                size += StepColumns.spelt_out(batch)
                _require_small(rows, size)
                batches.append(batch)
            whole = pa.Table.from_batches(batches, stream.schema).combine_chunks()
        columns = dict(_columns(whole))
    except (pa.ArrowException, OSError) as error:
        raise Unparseable(f"is no Arrow stream of steps: {error}") from None
    return pa.RecordBatch.from_pydict(columns)


def as_stream(rows: pa.RecordBatch) -> bytes:
    """The body of a record of these rows."""
    texts = {name: rows[name].cast(pa.large_string()) if name in JSON else rows[name] for name in rows.schema.names}
    rows, sink = pa.RecordBatch.from_pydict(texts), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return bytes(sink.getvalue())


def values_of(rows: pa.RecordBatch, row: int, record_id: str) -> dict[str, Any]:
    """One row as what a `Step` is made of.

    Raises:
        InvalidRecord: a JSON text is none, or a time is beyond the calendar.
    """
    values: dict[str, Any] = {"step_id": f"{record_id}.{row}"}
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        try:
            value = column[row].as_py()
            value = orjson.loads(value) if name in JSON and value is not None else value
        except (ValueError, OverflowError) as error:
            raise InvalidRecord(name, f"cannot be read: {error}") from None
        if value is not None:
            values[name] = value
    return values


def _require_small(rows: int, size: int) -> None:
    if rows > MAX_ROWS or size > MAX_BYTES:
        raise Unparseable(f"more than {MAX_ROWS} steps, or than {MAX_BYTES} bytes of them, in one record")


def _columns(whole: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    if (fault := StepColumns.fault(whole.schema)) is not None:
        raise Unparseable(" ".join(fault))
    yield "step_id", pa.nulls(whole.num_rows, pa.string())  # the rows are counted by it, too
    for field, column in zip(whole.schema, whole.columns, strict=True):
        if not pa.types.is_null(field.type):
            yield field.name, _taken(field.name, column.chunk(0) if column.num_chunks else pa.array([], field.type))


def _taken(name: str, array: pa.Array) -> pa.Array:
    """The column in the type that it is worked with."""
    if name in JSON:
        return array.cast(pa.large_string()).cast(pa.large_binary())
    if name in TIMES:
        return array.cast(pa.timestamp("us", "UTC"), safe=array.type.unit != "ns")
    if name in LISTS:
        return array
    return array.cast(StepColumns.OTHERS.get(name, pa.string()))
