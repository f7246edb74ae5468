"""The tables, column by column.

Every table ends with the same four: `producer` and `sequence` say which spool record a row came from, `commit` in which round of
ingest it was committed, and `ledger` is set on exactly one row per table, which is no data (see `_ledger`).
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

SCHEMA_VERSION = 1
"""Raised when a column changes its meaning; kept in every table's schema metadata."""

STORAGE_VERSION = "2.2"
"""Lance's file format: 2.3 is unstable, and the LanceDB of today cannot read it."""

_ZSTD = {"lance-encoding:compression": "zstd", "lance-encoding:compression-level": "3"}
_TIME = pa.timestamp("us", tz="UTC")


def _list(value: pa.DataType) -> pa.DataType:
    # The compression belongs on the item: on the list itself it is silently ignored.
    return pa.list_(pa.field("item", value, metadata=_ZSTD))


def _text(name: str) -> pa.Field:
    return pa.field(name, pa.string(), metadata=_ZSTD)


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table: its name, the column that identifies a row, and its schema."""

    name: str
    key: str
    schema: pa.Schema


def _spec(name: str, key: str, fields: list[pa.Field]) -> TableSpec:
    tail = [
        pa.field("producer", pa.string()),
        pa.field("sequence", pa.int64()),
        pa.field("commit", pa.int64()),
        pa.field("ledger", pa.string()),
    ]
    metadata = {"stepwell:schema": str(SCHEMA_VERSION)}
    return TableSpec(
        name, key, pa.schema([pa.field(key, pa.string(), nullable=False), *fields, *tail], metadata=metadata)
    )


STEPS = _spec(
    "steps",
    "step_id",
    [
        pa.field("call_id", pa.string()),
        pa.field("trajectory_id", pa.string()),
        pa.field("prompt_id", pa.string()),
        pa.field("group_id", pa.string()),
        pa.field("split", pa.string()),
        # Lineage: the conversation this step continues.
        pa.field("parent_id", pa.string()),
        pa.field("turn", pa.int32()),
        pa.field("conversation_key", pa.string()),
        pa.field("prompt_key", pa.string()),
        pa.field("continues", pa.string()),
        # Storage: the step this row is a difference to, which need not be its parent.
        pa.field("base_id", pa.string()),
        pa.field("base_depth", pa.int32()),
        pa.field("prompt_length", pa.int32()),
        pa.field("prompt_shared", pa.int32()),
        pa.field("prompt_suffix", _list(pa.int32())),
        pa.field("messages_shared", pa.int32()),
        _text("messages_suffix"),
        _text("tools"),
        # What the policy did.
        pa.field("response_ids", _list(pa.int32())),
        pa.field("logprobs", _list(pa.float32())),
        _text("response"),
        pa.field("finish_reason", pa.string()),
        pa.field("status", pa.string()),
        pa.field("trainable", pa.bool_()),
        pa.field("untrainable_reason", pa.string()),
        pa.field("content_hash", pa.string()),
        # By whom, and how.
        pa.field("logprobs_mode", pa.string()),
        pa.field("source", pa.string()),
        pa.field("fingerprint", pa.string()),
        pa.field("policy", pa.string()),
        pa.field("policy_version", pa.int64()),
        pa.field("policy_label", pa.string()),
        pa.field("model", pa.string()),
        pa.field("model_asked", pa.string()),
        pa.field("response_id", pa.string()),
        pa.field("dialect", pa.string()),
        pa.field("engine", pa.string()),
        _text("sampling"),
        _text("usage"),
        _text("metadata"),
        _text("extra"),
        pa.field("started_at", _TIME),
        pa.field("first_byte_at", _TIME),
        pa.field("first_token_at", _TIME),
        pa.field("finished_at", _TIME),
    ],
)

EVENTS = _spec(
    "events",
    "event_id",
    [
        pa.field("kind", pa.string()),
        pa.field("target_kind", pa.string()),
        pa.field("target_id", pa.string()),
        pa.field("name", pa.string()),
        pa.field("author", pa.string()),
        pa.field("value", pa.float64()),
        pa.field("text", pa.string()),
        _text("payload"),
        pa.field("created_at", _TIME),
    ],
)

EXCHANGES = _spec(
    "exchanges",
    "exchange_id",
    [
        pa.field("reason", pa.string()),
        pa.field("dialect", pa.string()),
        pa.field("trajectory_id", pa.string()),
        _text("request_head"),
        pa.field("request_body", pa.large_binary()),
        _text("response_head"),
        pa.field("response_body", pa.large_binary()),
        pa.field("created_at", _TIME),
    ],
)

COMMITS = _spec("commits", "commit_id", [_text("marks"), pa.field("created_at", _TIME)])

DATASETS = _spec(
    "datasets",
    "dataset_id",
    [
        pa.field("name", pa.string()),
        pa.field("version", pa.int32()),
        _text("filter"),
        _text("note"),
        pa.field("steps", pa.int64()),
        pa.field("at_commit", pa.int64()),
        pa.field("fingerprint", pa.string()),
        pa.field("created_at", _TIME),
    ],
)

DATASET_ROWS = _spec(
    "dataset_rows",
    "row_id",
    [
        pa.field("dataset_id", pa.string()),
        pa.field("position", pa.int64()),
        pa.field("step_id", pa.string()),
        pa.field("trajectory_id", pa.string()),
        pa.field("prompt_id", pa.string()),
        pa.field("group_id", pa.string()),
        pa.field("split", pa.string()),
        pa.field("policy_version", pa.int64()),
        pa.field("content_hash", pa.string()),
        pa.field("step_reward", pa.float64()),
        pa.field("trajectory_reward", pa.float64()),
    ],
)

TABLES = (STEPS, EVENTS, EXCHANGES, COMMITS, DATASETS, DATASET_ROWS)
