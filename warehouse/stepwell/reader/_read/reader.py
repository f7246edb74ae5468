"""`BatchReader`: prompt groups out of a warehouse, one optimizer step after the other."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from stepwell.reader._arrays import I64
from stepwell.reader._credit import Advantage, Estimator, LossWeights, Reduction
from stepwell.reader._modes import Merge
from stepwell.reader._plan.report import Plan
from stepwell.reader._read.batches import TreeBatches, trained_rows
from stepwell.reader._read.contents import Contents
from stepwell.reader._read.credit import Ledger
from stepwell.reader._read.place import Place
from stepwell.reader._read.realised import with_lengths
from stepwell.reader._read.settings import advantage_of, check_choices, check_derived, check_positive
from stepwell.reader._read.shape import Shape
from stepwell.reader._read.source import Source
from stepwell.reader._read.tokens import Room, read_sequences
from stepwell.reader._read.told import named_steps, plan_of
from stepwell.reader._realise.realise import Realiser
from stepwell.reader._select.drift import OnDrift, shared_with_parent
from stepwell.reader._select.facts import Selection
from stepwell.reader._select.order import Groups
from stepwell.reader._select.rules import OnError, Wanted, judge

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse

_log = logging.getLogger(__name__)


class BatchReader:
    """Iterate over it for one epoch of optimizer steps, each a `TreeBatches`; again for the next epoch, in another order.

    When it is made it reads columns only: which steps there are, how long they are, what they are worth. Tokens are read for one
    optimizer step at a time, so memory is bounded by the largest of those, and some hundred bytes per step of the selection.
    The same warehouse, selection, settings and seed give the same batches. One reader is for one thread.
    """

    def __init__(
        self,
        warehouse: Warehouse,
        *,
        dataset: str | None = None,
        version: int | None = None,
        where: str | None = None,
        at: str | int | None = None,
        advantage: str | Estimator | Advantage | None = "grpo",
        rewards: Mapping[str, float] | None = None,
        loss: Reduction | LossWeights = "token-mean",
        merge: Merge = "tree",
        max_tokens: int = 65_536,
        max_length: int | None = None,
        ranks: int = 1,
        groups_per_step: int | None = None,
        seed: int | None = 0,
        on_drift: OnDrift = "fork",
        on_error: OnError = "raise",
        old_logprobs: bool | None = None,
        derived: bool = False,
        realise: Realiser | None = None,
        unended: bool = False,
        verify: bool = False,
    ) -> None:
        """
        Args:
            dataset, version: A frozen dataset, the newest version by default. Or:
            where, at: A condition over the view `steps`, at a version of the warehouse, the newest by default (see `Warehouse.query`).
            advantage: An estimator's name, a callable, an `Advantage` with its settings, or None. Baselines see every complete
                trajectory of a group, whatever was selected of it.
            rewards: Weight of each reward by name; short for `Advantage(…, rewards=…)`.
            loss: How loss terms are averaged, a name or `LossWeights`: over the optimizer step, all ranks together.
            merge: `"tree"`; `"trajectory"`, for trainers without tree attention; `"none"`, a sequence per step.
            max_tokens: Most tokens of a pack.
            max_length: Most tokens of a step, prompt and response; by default as many as a pack.
            ranks: Of data parallelism: each gets equally many packs.
            groups_per_step: Prompt groups of an optimizer step. None: all of them in one, which then has to fit into memory.
            seed: Of the order of groups. None: the order of the dataset, in every epoch.
            on_drift: What becomes of steps whose tokens do not go on where the step before ended: `"fork"` trains both as they are;
                `"realign"` gives up what was sampled and is not repeated; `"drop"` leaves the drifted step out.
            on_error: What cannot be trained on is refused (`"raise"`), or left out and counted (`"skip"`).
            old_logprobs: True: every step must have them. False: they are left out. None: with advantages, all steps must have them
                if one has; without, they are left out.
            derived: Train also on ids that a tokenizer made from text.
            realise: Makes ids for the steps that have only text, each time they are read; with it `derived` only matters for advantages.
            unended: Take trajectories that were never ended as complete, as when nobody reports ends.
            verify: Compare each step, when it is read, with the hash of its content that a dataset froze, or that it came with. Its texts
                are part of that and have to be read, too, which takes several times as long.

        Raises:
            InvalidRecord: a setting; nothing is left to train on; with `on_error="raise"` whatever is wrong with a step.
            StoreError: there is no such dataset, or some of it is gone.
            StepwellError: the condition is no valid SQL.
        """
        check_choices(merge, on_drift, on_error)
        check_positive(max_tokens=max_tokens, max_length=max_length, ranks=ranks, groups_per_step=groups_per_step)
        self._shape = Shape(merge, max_tokens, ranks)
        self._on_error: OnError = on_error
        wanted, weights = advantage_of(advantage, rewards, on_error), LossWeights.of(loss)
        check_derived(realise, wanted, derived=derived)
        self._source, self._notes, self._room = Source(warehouse, realise), dict[str, int](), Room()
        self._selection = Selection.of(warehouse, dataset, version, where, at)
        self._steps = self._selection.read(warehouse)
        if verify:
            self._source.contents = Contents(warehouse, self._selection, self._steps)
        if realise is not None:
            self._steps, self._notes = with_lengths(self._steps, realise, self._source)
        self._verdict = judge(
            self._steps,
            Wanted(
                rl=wanted.kind != "none",
                grouped=wanted.grouped,
                old_logprobs=old_logprobs,
                derived=derived or realise is not None,
                on_drift=on_drift,
                on_error=on_error,
                longest=min(max_tokens, max_length or max_tokens),
            ),
        )
        self._ledger = Ledger(self._steps, self._verdict.kept, wanted, weights, unended=unended)
        self._groups = Groups(self._steps, self._verdict.trained)
        self._schedule = partial(self._groups.schedule, groups_per_step, seed)
        asked = (self._selection.where, self._selection.at, seed, groups_per_step)
        self._place = Place(asked if realise is None else (*asked, realise.fingerprint), self._verdict)

    def __iter__(self) -> Iterator[TreeBatches]:
        """The optimizer steps that are left of the current epoch; when they are through, the next epoch begins.

        Raises:
            InvalidRecord: as `on_error` says; conservation does not hold.
            StoreError: a step is gone.
        """
        schedule = self._schedule(self._place.epoch)
        while (number := self._place.next) < len(schedule):
            batches = self._read(number, schedule[number])
            self._place.next = number + 1
            if batches is not None:
                yield batches
        self._place.epoch, self._place.next = self._place.epoch + 1, 0

    def __len__(self) -> int:
        """Optimizer steps in an epoch."""
        return len(self._schedule(self._place.epoch))

    def plan(self) -> Plan:
        """What an epoch will be, told from columns alone: tokens before and after merging, packs, what is left out and why."""
        left_out, reports = Counter(self._verdict.left_out), []
        shared = shared_with_parent(self._steps)
        for groups in self._schedule(self._place.epoch):
            everyone = self._groups.rows(groups)
            rows, credit = self._ledger.credit(everyone, self._verdict.trained[everyone])
            left_out.update(credit.left_out)
            rows = rows[trained_rows(credit)]
            reports.append(self._shape.planned(self._steps, shared, rows, self._verdict.kept, groups=len(groups)))
        return plan_of(self._selection, self._steps, self._verdict, reports, left_out, self._notes)

    def state_dict(self) -> dict[str, Any]:
        """Where the reader is: what comes after the last batch that it gave. JSON."""
        return self._place.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where another reader of the same selection, settings and seed was.

        Raises:
            InvalidRecord: the state is of another selection, or of settings that give other optimizer steps.
        """
        self._place.load_state_dict(state)

    def _read(self, number: int, groups: I64) -> TreeBatches | None:
        """None when nothing of these groups is left to train on."""
        steps, trained, everyone = self._steps, self._verdict.trained, self._groups.rows(groups)
        rows, credit = self._ledger.credit(everyone, trained[everyone])
        wanted = rows[trained_rows(credit)]
        sequences, media, skipped = read_sequences(
            *(self._source, steps, wanted, self._verdict.kept, self._room),
            logprobs=self._verdict.old_logprobs,
            media=self._shape.merge != "none",
            on_error=self._on_error,
        )
        if skipped:  # what was planned does not hold: weights are of the terms that there are
            trained = trained.copy()
            trained[np.setdiff1d(wanted, sequences.step_index)] = False
            rows, credit = self._ledger.credit(everyone, trained[everyone])
        if not len(sequences):
            if skipped:  # which no batch can tell, and the plan did not know
                _log.warning("nothing is left of optimizer step %d, epoch %d: %s", number, self._place.epoch, skipped)
            return None
        at = np.searchsorted(rows, sequences.step_index)
        advantage = None if credit.advantage is None else credit.advantage[at]
        due = advantage, credit.weight[at]
        whose = steps.trajectory[sequences.step_index]
        packs, report, apart = self._shape.packed(sequences, media, whose, due, groups=len(groups))
        return TreeBatches(
            *(self._place.epoch, number, packs, named_steps(steps, sequences.step_index), report),
            skipped={**credit.left_out, **skipped},
            level_groups=credit.level_groups,
            apart=apart,
        )
