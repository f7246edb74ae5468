"""The tables, column by column.

Every table ends with the same three: `producer` and `sequence` say which spool record a row came from, and `ledger` is set on exactly
one row per table, which is no data (see `ledger`). In which commit a row became visible is not in the row, which is written before
anybody can know: `commits` says up to which record of each producer a commit came.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

SCHEMA_VERSION = 2
"""Raised when a column changes its meaning; kept in every table's schema metadata."""

STORAGE_VERSION: Final = "2.2"
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
        # Hashes are compressed as texts are: what Lance does by itself takes eight times as long, and as many bytes.
        _text("conversation_key"),
        pa.field("prompt_key", pa.string()),
        pa.field("continues", pa.string()),
        # Storage: the step this row is a difference to, which need not be its parent.
        pa.field("base_id", pa.string()),
        pa.field("base_depth", pa.int32()),
        pa.field("prompt_length", pa.int32()),
        # [from, copied, own, from, copied, own, …]: so many ids of the base's prompt and response, then so many of the suffix.
        pa.field("prompt_ops", _list(pa.int32())),
        pa.field("prompt_suffix", _list(pa.int32())),
        pa.field("messages_ops", _list(pa.int32())),
        _text("messages_suffix"),
        _text("tools"),
        # How its tokens relate to its parent's: exact, or drift from this position of the prompt on.
        pa.field("drift_at", pa.int32()),
        pa.field("drift_cause", pa.string()),
        # What the policy did.
        pa.field("response_ids", _list(pa.int32())),
        pa.field("logprobs", _list(pa.float32())),
        _text("response"),
        # What of messages, response and tools stands in `payloads`, by its hash.
        pa.field("payload_ids", pa.list_(pa.string())),
        pa.field("finish_reason", pa.string()),
        # What only the text shows (see `_parse/quality`).
        pa.field("quality", pa.list_(pa.string())),
        pa.field("status", pa.string()),
        pa.field("trainable", pa.bool_()),
        pa.field("untrainable_reason", pa.string()),
        _text("content_hash"),
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
        pa.field("input_tokens", pa.int64()),
        pa.field("cached_input_tokens", pa.int64()),
        pa.field("output_tokens", pa.int64()),
        pa.field("reasoning_tokens", pa.int64()),
        pa.field("tags", pa.list_(pa.string())),
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

PAYLOADS = _spec(
    "payloads",
    "payload_id",
    [
        pa.field("size", pa.int64()),
        pa.field("data", pa.large_binary(), metadata=_ZSTD),
        pa.field("created_at", _TIME),
    ],
)

COMMITS = _spec(
    "commits",
    "commit_id",
    # One row per commit and producer: its records above `after` up to `sequence` became visible with it.
    [
        pa.field("commit", pa.int64()),
        pa.field("after", pa.int64()),
        _text("versions"),
        pa.field("created_at", _TIME),
    ],
)

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
        pa.field("pinned", pa.bool_()),
        _text("lineage"),
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
        pa.field("labels", pa.list_(pa.string())),
        pa.field("trajectory_labels", pa.list_(pa.string())),
    ],
)

_NUMBERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.float64())]))

TRAJECTORIES = _spec(
    "trajectories",
    "trajectory_id",
    [
        pa.field("prompt_id", pa.string()),
        pa.field("group_id", pa.string()),
        pa.field("split", pa.string()),
        pa.field("state", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("steps", pa.int64()),
        pa.field("trainable_steps", pa.int64()),
        pa.field("turns", pa.int32()),
        pa.field("response_tokens", pa.int64()),
        pa.field("trajectory_reward", pa.float64()),
        pa.field("trajectory_rewards", _NUMBERS),
        pa.field("trajectory_scores", _NUMBERS),
        pa.field("labels", pa.list_(pa.string())),
        pa.field("policy_version_min", pa.int64()),
        pa.field("policy_version_max", pa.int64()),
        pa.field("group_size", pa.int64()),
        pa.field("opened_at", _TIME),
        pa.field("ended_at", _TIME),
        # JSON: the marks that its end refers to, while they are not all committed. It ends with them, without a row of its own.
        pa.field("awaits", pa.string()),
    ],
)

GROUPS = _spec(
    "groups",
    "group_id",
    [
        pa.field("prompt_id", pa.string()),
        pa.field("split", pa.string()),
        pa.field("trajectories", pa.int64()),
        pa.field("ended", pa.int64()),
        pa.field("steps", pa.int64()),
        pa.field("reward_mean", pa.float64()),
        pa.field("reward_std", pa.float64()),
        pa.field("rewarded", pa.int64()),
        pa.field("policy_version_min", pa.int64()),
        pa.field("policy_version_max", pa.int64()),
        pa.field("ready", pa.bool_()),
    ],
)

SUMMARIES = (TRAJECTORIES, GROUPS)
"""What the views of these names said at one commit, which their ledgers name. Made of the facts, and made anew from them at any time."""

FORGOTTEN = _spec(
    "forgotten",
    # A hash of what must not come in again, kind and id; the id itself is nowhere any more (see `_ingest/tombstones`).
    "forgotten_id",
    [pa.field("kind", pa.string()), pa.field("created_at", _TIME)],
)

FACTS = (PAYLOADS, EXCHANGES, STEPS, EVENTS)
"""What a commit writes, in this order, so that nothing refers to what is not there yet; `commits` comes last."""

TABLES = (*FACTS, COMMITS, DATASETS, DATASET_ROWS, FORGOTTEN, *SUMMARIES)
