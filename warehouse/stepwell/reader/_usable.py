"""What a trainer must not be handed: each rule names the first step, or the group, that breaks it."""

from __future__ import annotations

import pyarrow as pa

from stepwell.errors import InvalidRecord
from stepwell.reader._sampling import bending


def trained_only(steps: pa.Table, *, include_untrainable: bool) -> pa.Table:
    """The steps that loss terms may come from: trainable, and with the ids that an engine sampled."""
    if include_untrainable:
        return steps
    rows = zip(steps["trainable"].to_pylist(), steps["source"].to_pylist(), strict=True)
    return steps.filter(pa.array([bool(trainable) and source == "engine" for trainable, source in rows], pa.bool_()))


def require_tokens(steps: pa.Table) -> None:
    """Every step has token ids."""
    missing = steps.filter(steps["prompt_ids"].is_null())
    if missing.num_rows:
        first = missing["step_id"][0].as_py()
        hint = "select those that do (`prompt_length IS NOT NULL`)"
        raise InvalidRecord("prompt_ids", f"{missing.num_rows} steps have no token ids, first {first}; {hint}")


def require_old_logprobs(group: pa.Table) -> None:
    """All steps of a group have logprobs or none has, and they are of the distribution that was sampled from.

    Raw logprobs at a temperature other than 1, or of a truncated distribution, are those of another policy: importance ratios
    built on them are wrong without any sign of it. An engine that reports processed ones says so in `logprobs_mode`.
    """
    present = group["logprobs"].is_valid().to_pylist()
    ids = group["step_id"].to_pylist()
    if any(present) and not all(present):
        lacking = ids[present.index(False)]
        raise InvalidRecord(
            "logprobs", f"step {lacking} of {_name(group)} has none and others have; select those that have"
        )
    rows = zip(ids, present, group["logprobs_mode"].to_pylist(), group["sampling"].to_pylist(), strict=True)
    for step_id, has, mode, sampling in rows:
        if has and not str(mode or "").startswith("processed") and (why := bending(sampling or "{}")):
            raise InvalidRecord(
                "logprobs",
                f"step {step_id} of {_name(group)} was sampled with {why}, and its logprobs are not known to be of that "
                "distribution; select others, or record logprobs_mode='processed_logprobs' if the engine gives those",
            )


def require_comparable(group: pa.Table) -> None:
    """A group is one sampling round of one prompt: only then do its rewards compare."""
    if group["group_id"][0].as_py() is None:
        first = group["trajectory_id"][0].as_py()
        raise InvalidRecord(
            "group_id", f"trajectory {first} has no group to be compared in; give one, or use advantage='none'"
        )
    require_one(group, "prompt_id", "rewards of different tasks do not compare")


def require_one(group: pa.Table, column: str, why: str) -> None:
    """All steps of the group agree in `column`."""
    values = group[column].unique().to_pylist()
    if len(values) > 1:
        raise InvalidRecord(column, f"{_name(group)} has {values}: {why}; select one of them")


def _name(group: pa.Table) -> str:
    return f"group {group['group_id'][0].as_py()!r}"
