"""Which columns of steps are taken, for whoever takes or reads a stream of them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stepwell.sdk.records import Step
from stepwell.warehouse import StepColumns


def test_every_field_of_a_step_is_a_column_of_one_sort() -> None:
    sorts = [*StepColumns.LISTS, *StepColumns.JSON, *StepColumns.TIMES, *StepColumns.TEXTS, *StepColumns.OTHERS]
    assert sorted(sorts) == sorted(Step.model_fields)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("prompt_ids", of(kind)) for of in (pa.list_, pa.large_list) for kind in (pa.int8(), pa.uint64())),
        *(("logprobs", of(kind)) for of in (pa.list_, pa.large_list) for kind in (pa.float32(), pa.float64())),
        *((name, kind) for name in ("messages", "model") for kind in (pa.string(), pa.large_string())),
        ("metadata", pa.dictionary(pa.int8(), pa.string())),
        *(("finished_at", pa.timestamp(unit, "Asia/Tokyo")) for unit in ("s", "ms", "us", "ns")),
        *(("policy_version", kind) for kind in (pa.int8(), pa.int64(), pa.uint64())),
        *(("reward", kind) for kind in (pa.float32(), pa.float64(), pa.int64())),
        ("trainable", pa.bool_()),
        *((name, pa.null()) for name in ("prompt_ids", "messages", "reward")),
    ],
)
def test_what_is_taken(name: str, kind: pa.DataType) -> None:
    assert StepColumns.fault(pa.schema([(name, kind)])) is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("response_ids", kind) for kind in (pa.int32(), pa.list_(pa.float32()), pa.list_(pa.int32(), 2))),
        *(("logprobs", pa.list_(kind)) for kind in (pa.float16(), pa.int32(), pa.string())),
        *(("model", kind) for kind in (pa.binary(), pa.int32(), pa.dictionary(pa.int8(), pa.binary()))),
        ("metadata", pa.struct([("a", pa.int32())])),
        *(("started_at", kind) for kind in (pa.timestamp("us"), pa.string(), pa.int64(), pa.date32())),
        *(("reward", kind) for kind in (pa.float16(), pa.bool_(), pa.decimal128(5, 2))),
        ("policy_version", pa.float64()),
        ("trainable", pa.int8()),
        ("colour", pa.null()),
    ],
)
def test_what_is_not_is_named(name: str, kind: pa.DataType) -> None:
    fault = StepColumns.fault(pa.schema([("step_id", pa.string()), (name, kind)]))
    assert fault is not None and fault[0] == name and ("type" in fault[1] or name == "colour")


def test_a_name_is_there_once() -> None:
    fields = [("step_id", pa.string()), ("model", pa.string()), ("model", pa.string())]
    assert StepColumns.fault(pa.schema(fields)) == ("model", "is the name of two columns")


def test_texts_of_a_dictionary_count_for_every_row() -> None:
    words = pa.array(["x" * 1000, "y"])
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 99 + [1], pa.int8()), words)
    batch = pa.RecordBatch.from_pydict({"model": column, "step_id": pa.array(["s"] * 100)})
    assert StepColumns.spelt_out(batch) - batch.nbytes == 99_001
