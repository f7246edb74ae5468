"""The tables' columns: a change here is a change of what is on disk."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stepwell.sdk.records import Step
from stepwell.warehouse._tables.schema import SCHEMA_VERSION, STEPS, TABLES, TableSpec

TAIL = ["producer", "sequence", "ledger"]


@pytest.mark.parametrize("spec", TABLES, ids=lambda spec: spec.name)
def test_every_table(spec: TableSpec) -> None:
    assert spec.schema.names[0] == spec.key
    assert spec.schema.names[-3:] == TAIL
    assert [field.name for field in spec.schema if not field.nullable] == [spec.key], "the ledger row has nothing else"
    assert spec.schema.metadata == {b"stepwell:schema": str(SCHEMA_VERSION).encode()}


def test_token_lists_are_compressed_on_their_items() -> None:
    """On the list itself the setting is silently ignored."""
    for name in ("prompt_suffix", "response_ids", "logprobs"):
        kind = STEPS.schema.field(name).type
        assert kind.value_field.metadata[b"lance-encoding:compression"] == b"zstd"
        assert kind.value_type == (pa.float32() if name == "logprobs" else pa.int32())


def test_a_step_has_a_column_for_every_field() -> None:
    encoded = {"messages", "prompt_ids"}  # as differences
    events = {"reward"}
    assert set(Step.model_fields) - encoded - events <= set(STEPS.schema.names)
