"""Whole steps with the hash of what they hold, to be compared with the one that was taken when they came."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from stepwell.warehouse._encode.content import hashes_of

HASHED = ("prompt_ids", "response_ids", "logprobs", "messages", "response", "tools")
"""The columns that a content hash is over."""

CONTENT = "content"


def with_content(steps: pa.RecordBatchReader, columns: Sequence[str]) -> pa.RecordBatchReader:
    """These columns of whole `steps`, which have those of `HASHED`, too; and `content`, the hash computed from what is there now."""
    schema = pa.schema([*(steps.schema.field(name) for name in columns), pa.field(CONTENT, pa.string())])

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in steps:
            found = hashes_of(pa.Table.from_batches([batch]))
            yield pa.record_batch([*(batch[name] for name in columns), pa.array(found, pa.string())], schema)

    return pa.RecordBatchReader.from_batches(schema, batches())
