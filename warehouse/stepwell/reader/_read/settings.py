"""What a reader is asked for, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from stepwell.errors import InvalidRecord
from stepwell.reader._credit import Advantage
from stepwell.reader._modes import check_merge
from stepwell.reader._realise.realise import Realiser
from stepwell.reader._select.drift import CHOICES
from stepwell.reader._select.rules import OnError


def advantage_of(given: Any, rewards: Mapping[str, float] | None, on_error: OnError) -> Advantage:
    """An advantage as a reader was given it, with the weights of rewards; what is missing is skipped where faults are.

    Raises:
        InvalidRecord: rewards are given twice, or a setting is wrong.
    """
    options = Advantage.of(given)
    if rewards is not None:
        if options.rewards is not None:
            raise InvalidRecord("rewards", "are given twice: here, and in the advantage's settings")
        options = replace(options, rewards=rewards)
    if on_error == "skip" and options.kind != "none":
        options = replace(options, missing="skip")
    return options


def check_derived(realise: Realiser | None, advantage: Advantage, *, derived: bool) -> None:
    """Raises InvalidRecord for advantages of steps that a realiser makes ids for, unless that was said to be wanted."""
    if realise is not None and advantage.kind != "none" and not derived:
        why = "ids that a tokenizer made were not sampled, and an RL loss is about what was"
        raise InvalidRecord(
            "derived", f"{why}; train without advantages (SFT, DPO: advantage=None), or say derived=True"
        )


def check_choices(merge: str, on_drift: str, on_error: str) -> None:
    """Raises InvalidRecord when one of these is none of its choices."""
    check_merge(merge)
    for name, value, choices in (("on_drift", on_drift, CHOICES), ("on_error", on_error, get_args(OnError))):
        if value not in choices:
            raise InvalidRecord(name, f"is {value!r}; must be one of {', '.join(choices)}")


def check_positive(**values: int | None) -> None:
    """Raises InvalidRecord for a number below 1; None is none."""
    for name, value in values.items():
        if value is not None and value < 1:
            raise InvalidRecord(name, f"is {value}; must be at least 1")
