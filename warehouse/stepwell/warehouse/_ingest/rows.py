"""Linked steps, events and quarantined exchanges as Arrow rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from typing import Any

import orjson
import pyarrow as pa

from stepwell.sdk.records import Step
from stepwell.warehouse._encode.content import Hashed, content_hash
from stepwell.warehouse._encode.payloads import PayloadMemory
from stepwell.warehouse._link.link import Linked
from stepwell.warehouse._parse.draft import Draft
from stepwell.warehouse._parse.events import Row
from stepwell.warehouse._parse.quality import quality_of
from stepwell.warehouse._parse.said import declared_version, tags_of, token_counts
from stepwell.warehouse._tables.arrow import Array, list_array
from stepwell.warehouse._tables.schema import STEPS, TableSpec

Columns = Mapping[str, Sequence[Any]]


def step_rows(linked: Sequence[Linked]) -> pa.Table:
    """Rows of `steps`. Token lists go from numpy to Arrow without a Python object per token."""
    if not linked:
        return STEPS.schema.empty_table()
    columns = {name: values for part in (_said, _found, _made) for name, values in part(linked).items()}
    arrays = {
        field.name: _column(columns.get(field.name, ()), field.type, len(linked))
        for field in STEPS.schema
        if field.name not in _LISTS
    }
    for name, of in _LISTS.items():
        arrays[name] = list_array([of(item) for item in linked], STEPS.schema.field(name).type)
    return pa.Table.from_arrays([arrays[name] for name in STEPS.schema.names], schema=STEPS.schema)


def payload_rows(linked: Sequence[Linked], memory: PayloadMemory) -> pa.Table:
    """Rows of `payloads` that are to be there before those of `step_rows` for the same steps; `memory` knows what is."""
    return memory.rows((item.texts.payloads, item.draft.producer, item.draft.sequence) for item in linked)


def rows_of(spec: TableSpec, rows: Sequence[Row]) -> pa.Table:
    """Rows of another table, from dicts."""
    return pa.Table.from_pylist(list(rows), schema=spec.schema)


def _said(linked: Sequence[Linked]) -> Columns:
    """What the steps say themselves, or their trajectory's opening for them."""
    steps = [item.draft.step for item in linked]
    both = [(item.draft.step, item.facts) for item in linked]
    trainable = [_trainability(item) for item in linked]
    rarely = _rarely_said(steps)
    said = dict(zip(_PLAIN, zip(*map(attrgetter(*_PLAIN), steps), strict=True), strict=True))
    return {
        **said,
        **rarely,
        **_counted(linked, rarely),
        "prompt_id": [step.prompt_id or facts.prompt_id for step, facts in both],
        "group_id": [step.group_id or facts.group_id for step, facts in both],
        "split": [step.split or facts.split for step, facts in both],
        "policy_version": [
            step.policy_version
            if facts.policy_version is None
            else declared_version(step.policy_version, step.policy_label, facts.policy_version)
            for step, facts in both
        ],
        "source": [item.draft.step.source if item.draft.tokens is not None else None for item in linked],
        "trainable": [whether for whether, _ in trainable],
        "untrainable_reason": [reason for _, reason in trainable],
        "sampling": _json([step.sampling for step in steps]),
        "extra": _json([_extra(item) for item in linked]),
    }


def _rarely_said(steps: Sequence[Step]) -> Columns:
    """Without the columns that none of the steps has anything for."""
    columns: dict[str, Sequence[Any]] = {}
    usages, metadata = [step.usage for step in steps], [step.metadata for step in steps]
    if usages.count(None) < len(usages):
        counts = [token_counts(step.dialect, step.usage) for step in steps]
        columns |= {"usage": _json(usages), **{name: [count[name] for count in counts] for name in counts[0]}}
    if metadata.count(None) < len(metadata):
        columns |= {"metadata": _json(metadata), "tags": [tags_of(said) for said in metadata]}
    return columns


def _counted(linked: Sequence[Linked], said: Columns) -> Columns:
    """How many tokens went in and came out: as the provider counted them, and where nobody did, the ids."""
    drafts = [item.draft for item in linked]
    prompts = [None if draft.tokens is None else draft.prompt_length for draft in drafts]
    answers = [None if draft.tokens is None else len(draft.tokens) - draft.prompt_length for draft in drafts]
    counted = {"input_tokens": prompts, "output_tokens": answers}
    return {
        name: [own if count is None else count for count, own in zip(said[name], ids, strict=True)]
        if name in said
        else ids
        for name, ids in counted.items()
    }


def _found(linked: Sequence[Linked]) -> Columns:
    """Where the steps belong, and what was found out about them."""
    drafts = [item.draft for item in linked]
    return {
        "call_id": [item.call_id for item in linked],
        "trajectory_id": [item.trajectory_id for item in linked],
        "parent_id": [item.parent_id for item in linked],
        "turn": [item.turn for item in linked],
        "conversation_key": [draft.keys.conversation for draft in drafts],
        "prompt_key": [None if draft.submitted else draft.prompt_key for draft in drafts],
        "quality": [quality_of(draft.messages, draft.response) for draft in drafts],
        "drift_at": [item.drift and item.drift.at for item in linked],
        "drift_cause": [item.drift and item.drift.cause for item in linked],
        "producer": [draft.producer for draft in drafts],
        "sequence": [draft.sequence for draft in drafts],
    }


def _made(linked: Sequence[Linked]) -> Columns:
    """How the steps are stored."""
    with_ids = [None if item.draft.tokens is None else item for item in linked]
    return {
        "base_id": [item.delta.base_id for item in linked],
        "base_depth": [item.delta.depth for item in linked],
        "prompt_length": [item and item.draft.prompt_length for item in with_ids],
        "prompt_ops": [item and item.delta.prompt_ops for item in with_ids],
        "messages_ops": [item.delta.messages_ops if item.draft.messages else None for item in linked],
        "messages_suffix": [item.texts.messages for item in linked],
        "tools": [item.texts.tools for item in linked],
        "response": [item.texts.response for item in linked],
        "payload_ids": [item.texts.payload_ids for item in linked],
        "content_hash": [_hash(item.draft, item.hashed) for item in linked],
    }


def _hash(draft: Draft, prompt: Hashed | None) -> str:
    return content_hash(
        draft.prompt_length, draft.tokens, draft.logprobs, draft.messages, draft.response, draft.tools, prompt
    )


def _trainability(item: Linked) -> tuple[bool, str | None]:
    """What the step says, but for a prompt that is not whole and for ids that no engine sampled, which somebody must ask for."""
    draft = item.draft
    step, tokens, reason = draft.step, draft.tokens, None
    if item.incomplete is not None:
        return False, item.incomplete
    if tokens is None:
        reason = "no token ids"
    elif len(tokens) == draft.prompt_length:
        reason = "no token was sampled"
    elif step.source != "engine":
        reason = f"the token ids were derived from text ({step.source}), not sampled"
    if reason is None or not step.trainable:
        return step.trainable, step.untrainable_reason
    return False, reason


def _extra(item: Linked) -> Row | None:
    """With what was found out about the conversation: how much of it the provider remembered, what the client rewrote."""
    if not item.inherited and item.changed is None:
        return item.draft.step.extra or None
    found = {"inherited_messages": item.inherited or None, "rewritten": item.changed}
    return {**(item.draft.step.extra or {}), **{name: value for name, value in found.items() if value}} or None


_PLAIN = (
    *("step_id", "continues", "finish_reason", "status", "logprobs_mode", "fingerprint"),
    *("policy", "policy_label", "model", "model_asked", "response_id", "dialect", "engine"),
    *("started_at", "first_byte_at", "first_token_at", "finished_at"),
)
_LISTS: Mapping[str, Callable[[Linked], Array | None]] = {
    "prompt_suffix": lambda item: item.delta.own_ids,
    "response_ids": lambda item: None if item.draft.tokens is None else item.draft.tokens[item.draft.prompt_length :],
    "logprobs": lambda item: item.draft.logprobs,
}


def _column(values: Sequence[Any], kind: pa.DataType, count: int) -> pa.Array:
    """In most columns nearly all steps of a flush say the same, or nothing."""
    if not values:
        return pa.nulls(count, kind)
    if values.count(values[0]) != count:
        return pa.array(values, kind)
    return pa.nulls(count, kind) if values[0] is None else pa.repeat(pa.scalar(values[0], kind), count)


def _json(values: Sequence[object]) -> list[str | None]:
    """Many steps have the same object, which is written once."""
    written: dict[int, str | None] = {id(None): None}
    texts = list[str | None]()
    for value in values:  # they are all there until the end, so none has the place in memory that another had
        if (place := id(value)) not in written:
            written[place] = orjson.dumps(value).decode()
        texts.append(written[place])
    return texts
