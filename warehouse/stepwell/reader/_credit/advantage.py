"""`Advantage`: what a user says about how advantages are computed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from stepwell.errors import InvalidRecord
from stepwell.reader._credit.rollouts import REWARD_LIMIT, Rollouts

WEIGHT_LIMIT = 1e6
"""Largest magnitude of a reward's weight: what is weighed with it still fits float32."""

Estimator: TypeAlias = Callable[[Rollouts], Any]
"""One's own: from the rollouts to one number per step, float [S]; NaN where there is none."""

_ALWAYS = frozenset({"estimator", "truncated"})
_REWARDED = _ALWAYS | {"rewards", "absent", "missing"}
_COMPARED = _REWARDED | {"baseline", "alone"}
USES: Mapping[str, frozenset[str]] = {
    "none": _ALWAYS,
    "reinforce": _REWARDED | {"discount", "whiten", "baseline", "eps"},
    "grpo": _COMPARED | {"std", "eps"},
    "rloo": _COMPARED,
    "reinforce++": _REWARDED | {"discount", "baseline", "eps"},
    "reinforce++-baseline": _COMPARED | {"eps"},
    "step": _REWARDED | {"discount", "whiten", "baseline", "eps"},
    "callable": _ALWAYS | {"missing"},
}
"""Which settings each estimator looks at. One that it does not look at must not be set: it would seem to do something."""


@dataclass(frozen=True)
class Advantage:
    """How advantages are computed: an estimator and the settings it has. `docs/advantages.md` has the formulas.

    What is undefined in the papers is decided here:

    - A trajectory is **comparable** when it is complete, has its reward, and (for `grpo`, `rloo`, `reinforce++-baseline`) belongs to
      a prompt group. What is not comparable is in no baseline and is not trained on; see `missing`.
    - In a **group of one** there is nothing to compare with: 0; see `alone`.
    - In a group of **equal rewards** every advantage is exactly 0, with no rounding residue divided by `eps`.
    - A trajectory counts once in its group however many steps it has, and all its steps get the same advantage.
    - A step that **several branches share** is one step: it has one advantage and one set of loss terms. What comes after it in
      whichever branch counts once in its return.

    Raises:
        InvalidRecord: An unknown name, a number out of range, or a setting the estimator has no use for.
    """

    estimator: str | Estimator = "grpo"
    """- `"none"`: no advantages (SFT, or a trainer that has its own);
    - `"reinforce"`: the trajectory's reward, discounted by the parent edges to the deepest step below;
    - `"grpo"`: rewards compared within the prompt group (arXiv 2402.03300);
    - `"rloo"`: the reward less the mean of the group's *other* ones (arXiv 2402.14740);
    - `"reinforce++"`: `reinforce`, standardised over all tokens of the optimizer step (arXiv 2501.03262);
    - `"reinforce++-baseline"`: the reward less its group's mean, standardised in the same way;
    - `"step"`: the step's own reward plus, discounted, that of all steps below it;
    - a callable of `Rollouts`, which returns float [S]."""
    rewards: Mapping[str, float] | None = None
    """Weight of each reward by name. A trajectory that lacks one of them has no reward: a partial sum would pass for a bad (or good)
    one. None: the sum of all that are there, which is what the warehouse calls the trajectory's reward. `step` takes its names from the
    steps' rewards; of a name that only trajectories have, the reward is paid at the end."""
    absent: float | None = None
    """What an absent reward counts as, before it is weighted. None: it is missing. To `step` a step without a reward is
    no such case, it adds nothing; a trajectory none of whose steps has one is."""
    missing: Literal["raise", "skip"] = "raise"
    """What becomes of a selected step whose trajectory is not comparable: refuse the batch, or leave the step out and count it."""
    truncated: Literal["keep", "mask"] = "keep"
    """Trajectories that were cut off are samples of the policy like others (`"keep"`), or are not trained on (`"mask"`, as DAPO's
    overlong filtering). Of a whole group's baseline they are part either way, if they have a reward."""
    baseline: Literal["group", "selected"] = "group"
    """Whom a trajectory is compared with: all comparable trajectories of its group, or those only of which a step is trained on. For
    the estimators that standardise over the optimizer step: all steps of these, or the trained ones."""
    std: bool = True
    """`grpo`: divide by the group's sample standard deviation (n - 1, as `torch.std`). False: Dr. GRPO (arXiv 2503.20783)."""
    eps: float = 1e-6
    """Added to a standard deviation."""
    alone: Literal["zero", "reward"] = "zero"
    """What the only member of a group gets: nothing, or its bare reward as in verl and OpenRLHF."""
    discount: float = 1.0
    """Per parent edge, in [0, 1]. Within a step tokens are not discounted."""
    whiten: bool = False
    """`reinforce` and `step`: standardise over all tokens of the optimizer step."""

    @classmethod
    def of(cls, given: str | Estimator | Advantage | None) -> Advantage:
        """What a reader was given, as an object: a name, a callable, an `Advantage`, or None for `"none"`."""
        if isinstance(given, Advantage):
            return given
        return cls("none" if given is None else given)

    @property
    def kind(self) -> str:
        """The estimator's name; `"callable"` for one's own."""
        return self.estimator if isinstance(self.estimator, str) else "callable"

    @property
    def grouped(self) -> bool:
        """Whether trajectories are compared within their prompt group, so that they need one."""
        return "alone" in USES[self.kind]

    def __post_init__(self) -> None:
        known = [name for name in USES if name != "callable"]
        if self.estimator not in known if isinstance(self.estimator, str) else not callable(self.estimator):
            raise InvalidRecord(
                "advantage", f"{self.estimator!r} is unknown; use a callable, or one of {', '.join(known)}"
            )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise InvalidRecord(f"advantage.{name}", f"is {getattr(self, name)!r}; must be one of {choices}")
        _require("discount", self.discount, 0.0, 1.0)
        _require("eps", self.eps, 0.0, math.inf)
        if self.absent is not None:
            _require("absent", self.absent, -REWARD_LIMIT, REWARD_LIMIT)
        for name, weight in (self.rewards or {}).items():
            _require(f"rewards[{name!r}]", weight, -WEIGHT_LIMIT, WEIGHT_LIMIT)
        if self.rewards is not None and not any(self.rewards.values()):
            raise InvalidRecord("advantage.rewards", "gives no reward a weight; leave it out to take the sum of all")
        used = self._used()
        for item in fields(self):
            if item.name not in used and getattr(self, item.name) != item.default:
                raise InvalidRecord(f"advantage.{item.name}", f"means nothing to {self._shown()}; leave it out")

    def _used(self) -> frozenset[str]:
        """The settings that make a difference, given the others."""
        used = USES[self.kind]
        if "whiten" in used and not self.whiten:
            used -= {"baseline", "eps"}
        return used if self.std else used - {"eps"}

    def _shown(self) -> str:
        if "whiten" in USES[self.kind] and not self.whiten:
            return f"{self.kind!r} without whiten"
        return f"{self.kind!r} without std" if "std" in USES[self.kind] and not self.std else f"{self.kind!r}"


_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "missing": ("raise", "skip"),
    "truncated": ("keep", "mask"),
    "baseline": ("group", "selected"),
    "alone": ("zero", "reward"),
    "std": (True, False),
    "whiten": (True, False),
}


def _require(name: str, value: float, low: float, high: float) -> None:
    if not (math.isfinite(value) and low <= value <= high):
        raise InvalidRecord(f"advantage.{name}", f"is {value}; must be a finite number between {low:g} and {high:g}")
