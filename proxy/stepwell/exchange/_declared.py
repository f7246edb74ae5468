"""The policy that its trainer declared: for engines that do not say which weights answered.

What an engine says in its answer counts more, and so does a version that came with the call. A declaration is about moments: what held
when a generation began and when it ended must be the same, else the generation is of no single policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stepwell.sdk.records import Step

_INT64 = range(-(2**63), 2**63)
_MAX_NAME = 256


@dataclass(frozen=True, slots=True)
class Declared:
    """What a policy is called and which version of it answers; `label` is the trainer's own word for that version."""

    name: str
    version: int
    label: str | None = None

    @property
    def word(self) -> str:
        """The label, or the number."""
        return self.label or str(self.version)

    def plain(self) -> list[Any]:
        """As JSON has it: `[name, version, label]`."""
        return [self.name, self.version, self.label]


def declared_of(value: object) -> Declared | None:
    """The declaration in `[name, version, label]`; None for anything else. Never raises."""
    if not isinstance(value, (list, tuple)) or len(value) != 3:
        return None
    name, version, label = value
    if not _is_name(name) or type(version) is not int or version not in _INT64:
        return None
    return Declared(name, version, label) if label is None or _is_name(label) else None


def stamped(step: Step, start: Declared | None, end: Declared | None) -> Step:
    """`step` with what was declared when it began and when it ended, where nobody said more about its policy.

    Unequal: the label is `first..last`, there is no version, and the step is not for training. Nothing was declared at one of
    the two moments: nothing is said. The declared name is taken where the step names no policy of its own.
    """
    if step.policy_version is not None or step.policy_label is not None or start is None or end is None:
        return step
    name = step.policy or end.name
    if start == end:
        return step.model_copy(update={"policy": name, "policy_version": end.version, "policy_label": end.label})
    label = f"{start.word}..{end.word}"[:_MAX_NAME]
    mixed = {"policy": name, "policy_label": label, "trainable": False}
    reason = step.untrainable_reason or f"sampled by several policy versions: {label}"
    return step.model_copy(update={**mixed, "untrainable_reason": reason})


def stamped_all(steps: Sequence[Step], start: Declared | None, end: Declared | None) -> Sequence[Step]:
    """`stamped` for the choices of one call."""
    return [stamped(step, start, end) for step in steps] if start is not None and end is not None else steps


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_NAME
