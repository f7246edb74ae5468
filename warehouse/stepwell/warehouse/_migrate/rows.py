"""Rows of schema 1 as rows of schema 2.

Schema 1 had a column `commit` in every table, prompts and messages that share one beginning with their base (`prompt_shared`,
`messages_shared`), and one row per commit with all producers' marks as JSON.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepwell.warehouse._datasets import frozen
from stepwell.warehouse._parse.said import tags_of, token_counts
from stepwell.warehouse._tables.ledger import Marks
from stepwell.warehouse._tables.schema import COMMITS, DATASETS, STEPS, TableSpec

COLUMNS = (
    *("step_id", "call_id", "trajectory_id", "prompt_id", "group_id", "split", "parent_id", "turn"),
    *("conversation_key", "prompt_key", "continues", "prompt_length", "response_ids", "logprobs", "response"),
    *("finish_reason", "status", "trainable", "untrainable_reason", "content_hash", "logprobs_mode", "source"),
    *(
        "fingerprint",
        "policy",
        "policy_version",
        "policy_label",
        "model",
        "model_asked",
        "response_id",
        "dialect",
        "engine",
    ),
    *("sampling", "usage", "metadata", "extra", "started_at", "first_byte_at", "first_token_at", "finished_at"),
    *("producer", "sequence", "prompt_ids", "messages", "tools"),
)
"""What readers saw of a step: a dataset goes on to be read with these."""

_ROW_COLUMNS = (
    *("step_id", "trajectory_id", "content_hash", "prompt_id", "group_id", "split", "policy_version"),
    *("step_reward", "trajectory_reward"),
)
_PEER_COLUMNS = ("trajectory_id", "prompt_id", "group_id", "split", "trajectory_reward")


Row = dict[str, Any]


def committed(batch: pa.RecordBatch, marks: Marks) -> pa.RecordBatch:
    """Without the rows of a round that was interrupted: the spools still have them. Rows of no producer stay."""
    known = pa.array(marks, pa.string())
    limits = pa.array(marks.values(), pa.int64())
    place = pc.call_function("index_in", [batch["producer"]], pc.SetLookupOptions(value_set=known))
    limit = pc.fill_null(limits.take(place), 0)
    inside = pc.call_function("less_equal", [batch["sequence"], limit])
    return batch.filter(pc.call_function("or_kleene", [batch["producer"].is_null(), inside]))


def plain_rows(batch: pa.RecordBatch, spec: TableSpec, **made: pa.Array) -> pa.Table:
    """The columns that are in both schemas, those that were `made`, and null in the others."""
    count = batch.num_rows
    arrays = []
    for field in spec.schema:
        there = field.name in batch.schema.names and field.name != "ledger"
        column = made.get(field.name, batch[field.name] if there else pa.nulls(count, field.type))
        arrays.append(column.cast(field.type))
    return pa.Table.from_arrays(arrays, schema=spec.schema)


class Lengths:
    """How many tokens each step has, prompt and response: what an exact continuation shares."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        """`batches` of step_id, prompt_length and response_ids."""
        ids, totals = [], []
        for batch in batches:
            ids.append(batch["step_id"])
            totals.append(
                pc.call_function("add", [batch["prompt_length"].cast(pa.int64()), _lengths(batch["response_ids"])])
            )
        self._ids = pa.chunked_array(ids, pa.string()).combine_chunks()
        self._totals = pa.chunked_array(totals, pa.int64()).combine_chunks()

    def of(self, step_ids: pa.Array) -> pa.Array:
        """Null where it has none, or is not there."""
        place = pc.call_function("index_in", [step_ids], pc.SetLookupOptions(value_set=self._ids))
        return self._totals.take(place)


def step_rows(batch: pa.RecordBatch, lengths: Lengths) -> pa.Table:
    """Rows of `steps`."""
    own = _lengths(batch["prompt_suffix"])
    suffixes = batch["messages_suffix"].to_pylist()
    said = pa.array([None if text is None else len(orjson.loads(text)) for text in suffixes], pa.int64())
    said_usage = zip(batch["dialect"].to_pylist(), batch["usage"].to_pylist(), strict=True)
    usages = [token_counts(dialect, _object(text)) for dialect, text in said_usage]
    counts = {name: pa.array([row[name] for row in usages], pa.int64()) for name in token_counts(None, None)}
    tags = [tags_of(_object(text)) for text in batch["metadata"].to_pylist()]
    at, cause = _drift(batch, lengths)
    return plain_rows(
        batch,
        STEPS,
        prompt_ops=_ops(batch["prompt_shared"], own),
        messages_ops=_ops(batch["messages_shared"], said),
        tags=pa.array(tags, STEPS.schema.field("tags").type),
        drift_at=at,
        drift_cause=cause,
        **counts,
    )


def commit_rows(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Rows of `commits`: what each commit added to each producer's mark."""
    known: dict[int, Row] = {}
    for batch in batches:
        known.update({row["commit"]: row for row in batch.to_pylist()})
    rows, reached = list[Row](), Marks()
    for number in sorted(known):
        marks: Marks = orjson.loads(known[number]["marks"])
        for producer in sorted(marks):
            before = reached.get(producer, 0)
            if marks[producer] > before:
                said = {"commit_id": f"{number}.{producer}", "commit": number, "producer": producer}
                rows.append(
                    {**said, "after": before, "sequence": marks[producer], "created_at": known[number]["created_at"]}
                )
                reached[producer] = marks[producer]
    return pa.Table.from_pylist(rows, schema=COMMITS.schema)


def dataset_row(row: Row, rows: pa.Table, peers: pa.Table) -> Row:
    """A row of `datasets` with the fingerprint of today over the same values, if they gave the one that it had."""
    made = {name: row[name] for name in DATASETS.schema.names if name in row}
    if fingerprint(rows, peers) == row["fingerprint"]:
        made["fingerprint"] = frozen.fingerprint(rows, peers)
    lineage = {"columns": COLUMNS, "fingerprint_1": row["fingerprint"]}
    return {**made, "pinned": False, "lineage": orjson.dumps(lineage).decode(), "ledger": None}


def fingerprint(rows: pa.Table, peers: pa.Table) -> str:
    """As schema 1 took it."""
    digest = hashlib.sha256(b"stepwell dataset 1\n")
    for table, columns in ((rows, _ROW_COLUMNS), (peers, _PEER_COLUMNS)):
        digest.update(struct.pack("<q", table.num_rows))
        for row in zip(*(table[name].to_pylist() for name in columns), strict=True):
            for value in row:
                number = isinstance(value, float)
                encoded = struct.pack("<d", value) if number else b"" if value is None else str(value).encode()
                digest.update(struct.pack("<bI", value is not None, len(encoded)) + encoded)
    return digest.hexdigest()


def _ops(shared: pa.Array, own: pa.Array) -> pa.Array:
    """[0, shared, own] for each row; null where `own` is."""
    valid = own.is_valid().to_numpy(zero_copy_only=False)
    triples = np.stack([np.zeros(len(own), np.int32), _numbers(shared), _numbers(own)], axis=1).astype(np.int32)
    offsets = pa.array(np.arange(len(own) + 1, dtype=np.int32) * 3)
    kind = STEPS.schema.field("prompt_ops").type
    return pa.ListArray.from_arrays(offsets, pa.array(triples.reshape(-1)), type=kind, mask=pa.array(~valid))


def _drift(batch: pa.RecordBatch, lengths: Lengths) -> tuple[pa.Array, pa.Array]:
    """What can be said without reading the parents: where the parent is the base, it shares as much as it could."""
    parents = lengths.of(batch["parent_id"])  # null where there is nothing to compare with
    there = parents.is_valid().to_numpy(zero_copy_only=False) & batch["prompt_suffix"].is_valid().to_numpy(
        zero_copy_only=False
    )
    same = pc.fill_null(pc.call_function("equal", [batch["base_id"], batch["parent_id"]]), False).to_numpy(
        zero_copy_only=False
    )
    shared, total = _numbers(batch["prompt_shared"]), _numbers(parents)
    differs = there & same & (shared < total)
    cause = np.full(batch.num_rows, None, object)
    cause[there & ~same] = "parent not in memory"
    cause[differs] = "unknown"
    cause[differs & (shared == _numbers(batch["prompt_length"]))] = "truncated"
    return pa.array(shared.astype(np.int32), mask=~differs), pa.array(cause, pa.string())


def _lengths(lists: pa.Array) -> pa.Array:
    return pc.call_function("list_value_length", [lists]).cast(pa.int64())


def _numbers(column: pa.Array) -> NDArray[np.int64]:
    numbers: NDArray[np.int64] = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return numbers


def _object(text: str | None) -> dict[str, Any] | None:
    value = None if text is None else orjson.loads(text)
    return value if isinstance(value, dict) else None
