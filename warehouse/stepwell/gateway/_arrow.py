"""An Arrow IPC stream of steps, looked at before anything in it is believed."""

from __future__ import annotations

import struct

import pyarrow as pa

from stepwell.gateway._body import Body, check_count
from stepwell.gateway._decode import too_large
from stepwell.gateway._problems import Problem
from stepwell.warehouse import StepColumns

__all__ = ["batches_in"]

_EXPANDED = 2
"""How many times as large as a body its texts may be, when those of dictionaries are spelt out."""


def batches_in(body: Body, most: int) -> list[pa.RecordBatch]:
    """The batches of a stream of at most `most` steps, whose columns are what a `Step` has, in types that are taken.

    Raises:
        Problem: 400 where it is no such stream, 413 where it is too large, 415 for compressed buffers, 422 naming a column.
    """
    plain = body.plain
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    try:
        _refuse_compressed(plain)
        with pa.ipc.open_stream(plain) as stream:
            _check_columns(stream.schema)
            for batch in stream:
                rows += batch.num_rows
                check_count(rows, most)
                batch.validate(full=True)
                size += StepColumns.spelt_out(batch)
                if size > _EXPANDED * body.limit:
                    raise too_large(body.limit)
                batches.append(batch)
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise Problem(400, f"the body is no Arrow stream of steps: {error}") from None
    return batches


def _check_columns(schema: pa.Schema) -> None:
    if (fault := StepColumns.fault(schema)) is not None:
        name, reason = fault
        raise Problem(422, f"{name}: {reason}", field=name)


def _refuse_compressed(plain: bytes) -> None:
    """Buffers that are compressed one by one have no bound but their own word. A body that is compressed as a whole has."""
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(plain)):
        if message.type != "schema" and _compressed(message.metadata.to_pybytes(), message.type == "dictionary"):
            raise Problem(
                415, "the Arrow stream has compressed buffers: write it plain, and say Content-Encoding: zstd"
            )


def _compressed(flat: bytes, dictionary: bool) -> bool:
    """Whether a message has a `compression`, the fourth field of a RecordBatch in Arrow's Message.fbs.

    Such a batch is the message's header, its third field; a dictionary's is the second field of that.
    """
    table = _table(flat, 0)
    for number in (2, 1) if dictionary else (2,):
        if (place := _field(flat, table, number)) is None:
            return False
        table = _table(flat, place)
    return _field(flat, table, 3) is not None


def _table(flat: bytes, place: int) -> int:
    return place + int(struct.unpack_from("<I", flat, place)[0])


def _field(flat: bytes, table: int, number: int) -> int | None:
    """Where a field of a flatbuffer's table stands; None where it is absent."""
    fields = table - int(struct.unpack_from("<i", flat, table)[0])
    if 4 + 2 * number >= struct.unpack_from("<H", flat, fields)[0]:
        return None
    offset = int(struct.unpack_from("<H", flat, fields + 4 + 2 * number)[0])
    return table + offset if offset else None
