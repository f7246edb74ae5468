"""Prompt groups into optimizer steps: in an order that a seed decides, and no step with two policies or two tokenizers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from stepwell.reader._arrays import I64, Bools
from stepwell.reader._select.steps import Steps


class Groups:
    """The groups with something to train on, and the rows of each. A trajectory without a group is one of its own."""

    def __init__(self, steps: Steps, trained: Bools) -> None:
        self._order = np.argsort(steps.unit, kind="stable")
        sorted_units = steps.unit[self._order]
        units, first = np.unique(steps.unit[trained], return_index=True)
        self._start = np.searchsorted(sorted_units, units)
        self._stop = np.searchsorted(sorted_units, units, side="right")
        kind = np.stack([steps.policy.codes, steps.fingerprint.codes], axis=1)[np.flatnonzero(trained)[first]]
        self._kind = np.unique(kind, axis=0, return_inverse=True)[1].ravel()

    def __len__(self) -> int:
        return len(self._start)

    def rows(self, groups: I64) -> I64:
        """All steps of these groups, ascending: also those that do not train."""
        return np.sort(np.concatenate([self._order[self._start[one] : self._stop[one]] for one in groups.tolist()]))

    def schedule(self, per_step: int | None, seed: int | None, epoch: int) -> list[I64]:
        """The groups of each optimizer step of one epoch. `per_step` None: all that go together; `seed` None: in their own order.

        What is left of one policy or tokenizer and fills no optimizer step comes last.
        """
        count = len(self)
        order = np.arange(count) if seed is None else np.random.default_rng([seed, epoch]).permutation(count)
        full = sorted(
            self._filled(order, per_step or count), key=lambda step: (len(step[1]) < (per_step or 0), step[0])
        )
        return [groups for _, groups in full]

    def _filled(self, order: I64, many: int) -> Iterator[tuple[int, I64]]:
        """Where the last of its groups is in the order, and the groups."""
        kinds = self._kind[order]
        for kind in np.unique(kinds).tolist():
            places = np.flatnonzero(kinds == kind)
            for start in range(0, len(places), many):
                some = places[start : start + many]
                yield int(some[-1]), order[some]
