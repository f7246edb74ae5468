"""The steps of some prompt groups as `Rollouts`, which is what advantages and loss weights are computed from."""

from __future__ import annotations

import numpy as np

from stepwell.reader._arrays import I32, I64, Array, Bools
from stepwell.reader._credit import Advantage, Credit, LossWeights, Rollouts, assign
from stepwell.reader._plan.estimate import nearest
from stepwell.reader._select.steps import Steps


class Ledger:
    """Rollouts of any prompt groups: every trajectory of them, also those without a step that trains."""

    def __init__(self, steps: Steps, kept: I32, advantage: Advantage, loss: LossWeights, *, unended: bool) -> None:
        """`kept`: i32 [N] loss terms of each step that trains. `unended`: trajectories that never ended count as complete."""
        self._steps, self._kept, self._advantage, self._loss = steps, kept, advantage, loss
        made = steps.trajectories
        self._complete = (made.ended | unended) & made.training
        self._member = ~steps.superseded & ~steps.side & steps.training
        self._cut = np.zeros(len(made.names), np.bool_)
        # Rows are in order, and of several values for one place numpy keeps the last.
        self._cut[steps.trajectory[self._member]] = steps.truncated[self._member]
        self._by_group = np.argsort(made.group, kind="stable")
        self._sorted_groups = made.group[self._by_group]

    def credit(self, rows: I64, selected: Bools) -> tuple[I64, Credit]:
        """The rows that count, and what each of them is due; of arguments as `rollouts` takes them."""
        rollouts = self.rollouts(rows, selected)
        return rollouts.step, assign(rollouts, self._advantage, self._loss)

    def rollouts(self, rows: I64, selected: Bools) -> Rollouts:
        """
        Args:
            rows: i64 ascending, all steps of some groups.
            selected: bool [rows], those that train.
        """
        steps, made = self._steps, self._steps.trajectories
        keep = self._member[rows] | selected
        rows, selected = rows[keep], selected[keep]
        trajectories = self._trajectories(steps.trajectory[rows])
        parent, _ = (
            nearest(np.maximum(steps.parent, -1), np.zeros(len(steps), np.int64), rows) if len(rows) else (rows, rows)
        )
        return Rollouts(
            step=rows,
            trajectory=np.searchsorted(trajectories, steps.trajectory[rows]).astype(np.int32),
            group=made.group[trajectories],
            sequence=steps.turn[rows],
            parent=parent.astype(np.int32),
            complete=self._complete[trajectories],
            selected=selected,
            response_length=np.maximum(self._kept[rows], 0).astype(np.int64),
            truncated=self._cut[trajectories],
            trajectory_rewards={name: values[trajectories] for name, values in made.rewards.items()},
            step_rewards={name: values[rows] for name, values in steps.rewards.items()},
            names=made.names.take(trajectories).to_pylist(),
        )

    def _trajectories(self, seen: Array) -> I64:
        """Ascending: those of these steps, and all others of their groups."""
        groups = np.unique(self._steps.trajectories.group[seen])
        groups = groups[groups >= 0]
        first, last = (np.searchsorted(self._sorted_groups, groups, side=side) for side in ("left", "right"))
        others = [self._by_group[start:stop] for start, stop in zip(first.tolist(), last.tolist(), strict=True)]
        return np.unique(np.concatenate([seen.astype(np.int64), *others]))
