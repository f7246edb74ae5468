"""What a reader tells of its steps: their names, and what becomes of them in an epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from stepwell.reader._arrays import I64, Bools
from stepwell.reader._plan.report import Plan, StepReport
from stepwell.reader._select.drift import causes
from stepwell.reader._select.facts import Selection
from stepwell.reader._select.rules import Verdict
from stepwell.reader._select.steps import Coded, Steps


def named_steps(steps: Steps, rows: I64) -> pa.Table:
    """step_index, step_id, trajectory_id and group_id of these rows."""
    made = steps.trajectories
    trajectory = steps.trajectory[rows]
    group = made.group[trajectory]
    return pa.table(
        {
            "step_index": rows,
            "step_id": steps.step_id.take(pa.array(rows)),
            "trajectory_id": made.names.take(pa.array(trajectory)),
            "group_id": made.groups.take(pa.array(group, mask=group < 0)),
        }
    )


def plan_of(
    selection: Selection,
    steps: Steps,
    verdict: Verdict,
    reports: Sequence[StepReport],
    left_out: Mapping[str, int],
    notes: Mapping[str, int],
) -> Plan:
    """The plan of an epoch of these optimizer steps. `left_out`: selected steps that do not train, whatever found them out."""
    return Plan(
        selection=selection.label,
        at=selection.at,
        optimizer_steps=tuple(reports),
        selected=int(steps.selected.sum()),
        left_out=dict(left_out),
        skipped=verdict.faults,
        drift=causes(steps, verdict.trained),
        derived=int((steps.derived & verdict.trained).sum()),
        notes=notes,
        policies=_names(steps.policy, verdict.trained),
        fingerprints=_names(steps.fingerprint, verdict.trained),
    )


def _names(column: Coded, rows: Bools) -> tuple[str, ...]:
    return tuple(column.names[code] for code in np.unique(column.codes[rows]).tolist() if code >= 0)
