"""The columns of steps in Arrow: their names, the types they are taken in, and what they are kept in."""

from __future__ import annotations

from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from stepwell.sdk.records import Step

_INTEGERS = (pa.types.is_integer,)
_FLOATS = (pa.types.is_float32, pa.types.is_float64)
_TEXTS = (pa.types.is_string, pa.types.is_large_string)
_SORTS = {"policy_version": _INTEGERS, "reward": (*_FLOATS, *_INTEGERS), "trainable": (pa.types.is_boolean,)}


class StepColumns:
    """The rules for a stream of steps, for the gateway that takes one as for the ingest that reads it. Nothing is made of this class.

    `IDS`, `LISTS`: columns of lists. `OBJECTS`, `JSON`: of JSON texts. `TIMES`, `TEXTS`. `OTHERS`: the rest, with the types that they
    are kept in. `RECORD`: the kind of a spool record whose body is such a stream.
    """

    RECORD = "steps"
    IDS = ("prompt_ids", "response_ids")
    LISTS = (*IDS, "logprobs")
    OBJECTS = ("sampling", "usage", "metadata", "extra")
    JSON = ("messages", "response", "tools", *OBJECTS)
    TIMES = ("started_at", "first_byte_at", "first_token_at", "finished_at")
    OTHERS: ClassVar = {"policy_version": pa.int64(), "reward": pa.float64(), "trainable": pa.bool_()}
    TEXTS: ClassVar = tuple(sorted(Step.model_fields.keys() - {*LISTS, *JSON, *TIMES, *OTHERS}))

    @classmethod
    def fault(cls, schema: pa.Schema) -> tuple[str, str] | None:
        """The first column that is not taken, and why; None where all of them are. A column of nulls says nothing, and may be there."""
        for field in schema:
            if field.name not in Step.model_fields:
                return field.name, "is no field of a step"
            if schema.names.count(field.name) > 1:
                return field.name, "is the name of two columns"
            if not pa.types.is_null(field.type) and not cls._takes(field.name, field.type):
                return field.name, f"is of type {field.type}, which it is not taken in"
        return None

    @classmethod
    def spelt_out(cls, batch: pa.RecordBatch) -> int:
        """The bytes of a batch, which was validated, once each row has its own texts: one of a dictionary may stand in all of them."""
        size = int(batch.nbytes)
        for column in batch.columns:
            if pa.types.is_dictionary(column.type) and any(is_(column.type.value_type) for is_ in _TEXTS):
                lengths = pc.call_function("binary_length", [column.dictionary]).cast(pa.int64())
                size += int(pc.call_function("sum", [lengths.take(column.indices)]).as_py() or 0)
        return size

    @classmethod
    def _takes(cls, name: str, kind: pa.DataType) -> bool:
        if name in cls.LISTS:
            listed = pa.types.is_list(kind) or pa.types.is_large_list(kind)
            return listed and any(is_(kind.value_type) for is_ in (_FLOATS if name == "logprobs" else _INTEGERS))
        if name in cls.TIMES:
            return bool(pa.types.is_timestamp(kind)) and kind.tz is not None
        if name in _SORTS:
            return any(is_(kind) for is_ in _SORTS[name])
        return any(is_(kind.value_type if pa.types.is_dictionary(kind) else kind) for is_ in _TEXTS)
