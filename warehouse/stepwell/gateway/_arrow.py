"""An Arrow IPC stream of steps, looked at before anything in it is believed."""

from __future__ import annotations

import struct

import pyarrow as pa
import pyarrow.compute as pc

from stepwell.gateway._body import Body, check_count
from stepwell.gateway._decode import too_large
from stepwell.gateway._problems import Problem
from stepwell.gateway._rows import LISTS, TIMES
from stepwell.sdk.records import Step

__all__ = ["batches_in"]

_EXPANDED = 2
"""How many times as large as a body its texts may be, when those of dictionaries are spelt out."""
_INTEGERS = (pa.types.is_integer,)
_FLOATS = (pa.types.is_float32, pa.types.is_float64)
_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_OTHERS = {"policy_version": _INTEGERS, "reward": (*_FLOATS, *_INTEGERS), "trainable": (pa.types.is_boolean,)}


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
                rows, size = rows + batch.num_rows, size + _expanded(batch)
                check_count(rows, most)
                if size > _EXPANDED * body.limit:
                    raise too_large(body.limit)
                batch.validate(full=True)
                batches.append(batch)
    except (pa.ArrowException, OSError, ValueError, struct.error) as error:
        raise Problem(400, f"the body is no Arrow stream of steps: {error}") from None
    return batches


def _check_columns(schema: pa.Schema) -> None:
    for field in schema:
        reason = None
        if field.name not in Step.model_fields:
            reason = "is no field of a step"
        elif schema.names.count(field.name) > 1:
            reason = "two columns have this name"
        elif not pa.types.is_null(field.type) and not _is_taken(field.name, field.type):
            reason = f"is of type {field.type}, which it is not taken in"
        if reason is not None:
            raise Problem(422, f"{field.name}: {reason}", field=field.name)


def _is_taken(name: str, kind: pa.DataType) -> bool:
    if name in LISTS:
        listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
        return listed and any(is_(kind.value_type) for is_ in (_FLOATS if name == "logprobs" else _INTEGERS))
    if name in TIMES:
        return bool(pa.types.is_timestamp(kind)) and kind.tz is not None
    if name in _OTHERS:
        return any(is_(kind) for is_ in _OTHERS[name])
    return any(is_(kind.value_type if pa.types.is_dictionary(kind) else kind) for is_ in _TEXTS)


def _expanded(batch: pa.RecordBatch) -> int:
    """Bytes of a batch with the texts of its dictionaries spelt out."""
    size = int(batch.nbytes)
    for column in batch.columns:
        if pa.types.is_dictionary(column.type):
            column.validate(full=True)  # the indices must be some
            lengths = pc.call_function("binary_length", [column.dictionary])
            size += int(pc.call_function("sum", [lengths.take(column.indices)]).as_py() or 0)
    return size


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
