"""The definitions in plain Python, trajectory by trajectory and step by step; None is "there is none"."""

from __future__ import annotations

import statistics

from tests.reader.credit.forest import Trajectory

from stepwell.reader._credit import Advantage, LossWeights

Values = list[list[float | None]]
"""[trajectory][step]"""


def reward_of(one: Trajectory, options: Advantage) -> float | None:
    if options.rewards is None:
        return sum(one.rewards.values()) if one.rewards else options.absent
    total = 0.0
    for name, weight in options.rewards.items():
        value = one.rewards.get(name, options.absent)
        if value is None:
            return None
        total += weight * value
    return total


def is_candidate(one: Trajectory, step: int, options: Advantage) -> bool:
    return one.steps[step].selected and not (one.truncated and options.truncated == "mask")


def children(one: Trajectory, step: int) -> list[int]:
    return [at for at, other in enumerate(one.steps) if other.parent == step]


def height(one: Trajectory, step: int) -> int:
    return max((1 + height(one, child) for child in children(one, step)), default=0)


def to_go(one: Trajectory, step: int, name: str | None, discount: float) -> float:
    """The rewards of one name (of all, when None) from this step on."""
    given = one.steps[step].rewards
    own = sum(given.values()) if name is None else given.get(name, 0.0)
    return own + discount * sum(to_go(one, child, name, discount) for child in children(one, step))


def step_returns(one: Trajectory, options: Advantage) -> list[float | None]:
    found: list[float | None] = []
    for step in range(len(one.steps)):
        total: float | None = 0.0
        for name, weight in ({None: 1.0} if options.rewards is None else options.rewards).items():
            end: float | None = 0.0
            if name in ("tests", "judge"):
                end = one.rewards.get(name, options.absent)
            elif not any(other.rewards if name is None else name in other.rewards for other in one.steps):
                end = options.absent
            if end is None or total is None:
                total = None
            else:
                later = 0.0 if name in ("tests", "judge") else to_go(one, step, name, options.discount)
                total += weight * (later + options.discount ** height(one, step) * end)
        found.append(total if one.complete else None)
    return found


def compared(everyone: list[Trajectory], options: Advantage) -> list[float | None]:
    """[trajectory] The group estimators."""

    def member(other: Trajectory) -> bool:
        taken = options.baseline == "group" or any(is_candidate(other, at, options) for at in range(len(other.steps)))
        return taken and other.complete and other.group >= 0 and reward_of(other, options) is not None

    found: list[float | None] = []
    for one in everyone:
        own = reward_of(one, options)
        if not member(one) or own is None:
            found.append(None)
            continue
        peers = [other for other in everyone if other.group == one.group and member(other)]
        values = [value for other in peers if (value := reward_of(other, options)) is not None]
        others = [value for other in peers if other is not one and (value := reward_of(other, options)) is not None]
        if not others:
            found.append(own if options.alone == "reward" else 0.0)
        elif len(set(values)) == 1:
            found.append(0.0)
        elif options.estimator == "rloo":
            found.append(own - statistics.fmean(others))
        else:
            divide = options.estimator == "grpo" and options.std
            found.append((own - statistics.fmean(values)) / (statistics.stdev(values) + options.eps if divide else 1.0))
    return found


def whitened(everyone: list[Trajectory], values: Values, options: Advantage) -> Values:
    tokens: list[float] = []
    for one, row in zip(everyone, values, strict=True):
        for at, value in enumerate(row):
            if value is not None and (options.baseline == "group" or is_candidate(one, at, options)):
                tokens += [value] * one.steps[at].length
    if len(set(tokens)) <= 1:
        return [[None if value is None else 0.0 for value in row] for row in values]
    mean, scale = statistics.fmean(tokens), statistics.stdev(tokens) + options.eps
    return [[None if value is None else (value - mean) / scale for value in row] for row in values]


def advantages(everyone: list[Trajectory], options: Advantage) -> Values:
    """Of every step, trained or not."""
    if options.estimator in ("grpo", "rloo", "reinforce++-baseline"):
        found = compared(everyone, options)
        values: Values = [[value] * len(one.steps) for one, value in zip(everyone, found, strict=True)]
    elif options.estimator == "step":
        values = [step_returns(one, options) for one in everyone]
    else:
        values = []
        for one in everyone:
            own = reward_of(one, options) if one.complete else None
            steps = range(len(one.steps))
            values.append([None if own is None else options.discount ** height(one, at) * own for at in steps])
    return whitened(everyone, values, options) if options.whiten or "++" in str(options.estimator) else values


def weights(everyone: list[Trajectory], trained: list[list[bool]], how: LossWeights) -> list[list[float]]:
    """[trajectory][step]"""
    terms = [
        [step.length if used else 0 for step, used in zip(one.steps, row, strict=True)]
        for one, row in zip(everyone, trained, strict=True)
    ]
    per_trajectory = how.sequence == "trajectory" or how.reduction == "trajectory-mean"
    sequences = [[sum(row)] for row in terms] if per_trajectory else terms
    count = sum(1 for row in sequences for length in row if length)
    total = sum(map(sum, terms))
    found = []
    for row in terms:
        out = []
        for own in row:
            length = sum(row) if per_trajectory else own
            if not own:
                out.append(0.0)
            elif how.reduction == "token-mean":
                out.append(1 / total)
            elif how.reduction == "dr-grpo":
                assert how.length
                out.append(1 / (count * how.length))
            else:
                out.append(1 / (count * length))
        found.append(out)
    return found
