"""Which steps of a selection train, and why each of the others does not.

What is left out *by rule* is no mistake: eval steps, superseded attempts, side calls, what the warehouse calls untrainable. A *fault* is
something that a training run should not meet: it is refused, or skipped and counted, as the caller chose. Every step stands under the
first reason that holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I32, Array, Bools
from stepwell.reader._sampling import bending
from stepwell.reader._select.drift import OnDrift, kept_by_realigning
from stepwell.reader._select.steps import LOST, Steps

OnError = Literal["raise", "skip"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the caller asks of the steps."""

    rl: bool
    """Advantages are wanted: an optimizer step is of one policy, and its ids were sampled."""
    grouped: bool
    """… and they come from comparing the trajectories of a group."""
    old_logprobs: bool | None
    """True: every step must have them. None: with `rl`, every step must have them if any has."""
    derived: bool
    """Ids that a tokenizer made from text are welcome."""
    on_drift: OnDrift
    on_error: OnError
    longest: int
    """Most tokens of a step, prompt and response."""


@dataclass(frozen=True, eq=False)
class Verdict:
    trained: Bools
    """[N] Steps with loss terms."""
    kept: I32
    """[N] Tokens of each response that stay; those after them were given up in realigning."""
    old_logprobs: bool
    left_out: dict[str, int]
    """Selected steps that do not train by rule, by reason."""
    faults: dict[str, int]
    """Those that were skipped, by reason."""


@dataclass(frozen=True, slots=True)
class _Fault:
    reason: str
    field: str
    rows: Bools
    remedy: str
    detail: str = ""


def judge(steps: Steps, wanted: Wanted) -> Verdict:
    """
    Raises:
        InvalidRecord: a fault, unless `on_error` is `"skip"`; nothing is left to train on.
    """
    trained, left_out, faults = steps.selected.copy(), dict[str, int](), dict[str, int]()
    for reason, rows in _by_rule(steps, wanted):
        _take_out(trained, rows, reason, left_out)
    with_logprobs = _logprobs_wanted(steps, trained, wanted)
    for fault in _of_steps(steps, wanted, with_logprobs, trained):
        _report(steps, fault, trained, wanted, faults)
    for fault in _of_groups(steps, wanted, trained):
        _report(steps, fault, trained, wanted, faults)
    kept = steps.response_length
    if wanted.on_drift == "realign":
        kept = kept_by_realigning(steps, trained)
    if not trained.any():
        why = ", ".join(f"{count} {reason}" for reason, count in {**left_out, **faults}.items())
        raise InvalidRecord("where", f"nothing is left to train on: of {steps.selected.sum()} steps selected, {why}")
    return Verdict(trained, kept, with_logprobs, left_out, faults)


def _take_out(trained: Bools, rows: Bools, reason: str, counts: dict[str, int]) -> None:
    gone = trained & rows
    if gone.any():
        counts[reason] = counts.get(reason, 0) + int(gone.sum())
        trained[gone] = False


def _report(steps: Steps, fault: _Fault, trained: Bools, wanted: Wanted, faults: dict[str, int]) -> None:
    gone = trained & fault.rows
    if not gone.any():
        return
    if wanted.on_error == "raise":
        first = int(gone.argmax())
        many = f"{gone.sum()} steps, first " if gone.sum() > 1 else ""
        what = f"{many}{steps.name(first)} of {steps.name_of_unit(first)}: {fault.reason}{fault.detail}"
        raise InvalidRecord(fault.field, f"{what}; {fault.remedy}, or skip such steps (on_error='skip')")
    _take_out(trained, fault.rows, fault.reason, faults)


def _by_rule(steps: Steps, wanted: Wanted) -> Iterator[tuple[str, Bools]]:
    yield "eval split", ~steps.training
    yield "superseded attempt", steps.superseded
    yield "side call", steps.side
    for code, reason in enumerate(steps.untrainable.names):
        yield f"not trainable: {reason}", steps.untrainable.codes == code
    if not wanted.derived:
        yield "ids not sampled by an engine", steps.derived
    yield "empty response", steps.response_length == 0
    if wanted.on_drift == "drop":
        yield "drifted", steps.drift.codes >= 0


def _logprobs_wanted(steps: Steps, trained: Bools, wanted: Wanted) -> bool:
    if wanted.old_logprobs is not None:
        return wanted.old_logprobs
    return wanted.rl and bool((steps.logprobs[trained] >= 0).any())


def _of_steps(steps: Steps, wanted: Wanted, with_logprobs: bool, trained: Bools) -> Iterator[_Fault]:
    without = (steps.prompt_length < 0) | (steps.response_length < 0)
    yield _Fault("has no token ids", "prompt_ids", without, "select those that have (`prompt_length IS NOT NULL`)")
    why = "its first response token has no token before it to be predicted from"
    yield _Fault("has an empty prompt", "prompt_ids", steps.prompt_length == 0, why)
    missing = "the step that it continues is not there"
    yield _Fault(missing, "parent_id", steps.parent == LOST, "what was forgotten or lost cannot be given credit")
    long, limit = steps.lengths > wanted.longest, f" (of {wanted.longest} tokens)"
    yield _Fault(
        "is longer than a pack or sequence may be", "max_tokens", long, "allow more, or select shorter ones", limit
    )
    if not with_logprobs:
        return
    absent, counts = steps.logprobs < 0, steps.logprobs != steps.response_length
    yield _Fault(
        "has no logprobs and others have", "logprobs", absent, "select those that have, or none (old_logprobs=False)"
    )
    yield _Fault("has not one logprob per response id", "logprobs", counts, "select others")
    bent = _bent(steps, trained & steps.reshaped)
    remedy = "select others, do without (old_logprobs=False), or record logprobs_mode='processed_logprobs' if the engine gives those"
    yield _Fault("has logprobs not of the distribution it was sampled from", "logprobs", steps.reshaped, remedy, bent)


def _bent(steps: Steps, rows: Bools) -> str:
    text = steps.sampling.name(int(rows.argmax())) if rows.any() else None
    return f" ({bending(text)})" if text else ""


def _of_groups(steps: Steps, wanted: Wanted, trained: Bools) -> Iterator[_Fault]:
    fingerprints = _mixed(steps.unit, steps.fingerprint.codes, trained)
    yield _Fault(
        "its group mixes models or tokenizers, whose ids cannot be merged", "fingerprint", fingerprints, "select one"
    )
    if not wanted.rl:
        return
    policies = _mixed(steps.unit, steps.policy.codes, trained)
    yield _Fault("its group mixes policies, and an RL batch is of one", "policy", policies, "select one")
    if wanted.grouped:
        group, prompt = steps.trajectories.group, steps.trajectories.prompt.codes
        tasks = _mixed(group, prompt, group >= 0)[steps.trajectory] & (steps.group >= 0)
        yield _Fault(
            "its group is of several prompts, whose rewards do not compare", "prompt_id", tasks, "regroup them"
        )


def _mixed(unit: I32, codes: I32, rows: Bools) -> Bools:
    """[N] Whether the `rows` of each one's unit have different codes."""
    least = np.full(int(unit.max(initial=-1)) + 2, np.iinfo(np.int32).max, np.int32)  # the last is that of unit -1
    most: Array = np.full(len(least), np.iinfo(np.int32).min, np.int32)
    np.minimum.at(least, unit[rows], codes[rows])
    np.maximum.at(most, unit[rows], codes[rows])
    different: Bools = (least < most)[unit]
    return different
