"""From an optimizer step's packs to `Rows`: each line of steps that go on where the one before ended becomes a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import F32, I64, Array, offsets_of, ranges
from stepwell.reader._batch import TreeBatch
from stepwell.reader._merge import merge
from stepwell.reader._prefix import PrefixOrder
from stepwell.reader._sequences import Sequences
from stepwell.reader.adapters._rows import Rows


class OptimizerStep(Protocol):
    """What adapters need of a `TreeBatches`."""

    @property
    def steps(self) -> pa.Table: ...

    def __iter__(self) -> Iterator[TreeBatch]: ...


Batch = OptimizerStep | Rows
"""What adapters take."""


def rows_of(batch: Batch, details: pa.Table | None = None) -> Rows:
    """The rows of an optimizer step read with `merge="trajectory"` or `"none"`, all ranks together: trainers spread rows themselves.

    Where two steps of a line trained the same position (an answer that begins with another one, whole), each gets a row: a row has one
    term per token. Steps without a loss term have no row of their own.

    Args:
        details: more columns by `step_id`, as `step_details` reads them; some trainers want a reward or a policy version.

    Raises:
        InvalidRecord: the batch has branches; `details` lack a step.
    """
    if isinstance(batch, Rows):
        return batch
    steps = batch.steps if details is None else _joined(batch.steps, details)
    packs = [pack for pack in batch if pack.occurrences]
    lines = [line for pack in packs for line in _lines(pack)]
    return _filled(lines, _in_order(lines, steps), steps, packs)


def rows_of_sequences(
    sequences: Sequences, *, advantage: Any = None, weight: Any = "token-mean", steps: pa.Table | None = None
) -> Rows:
    """A row per step of `sequences`, without a warehouse. `advantage`, `weight`: as for `merge`.

    `steps`: step_index, step_id, trajectory_id, group_id and more, ascending by step_index; by default each step is a trajectory.
    """
    every = np.arange(len(sequences), dtype=np.int64)
    batch = merge(sequences, advantage=advantage, weight=weight, prefixes=PrefixOrder(every, np.zeros_like(every)))
    if steps is None:
        index = np.sort(sequences.step_index)
        names = pa.array(index).cast(pa.string())
        none = pa.nulls(len(index), pa.string())
        steps = pa.table({"step_index": index, "step_id": names, "trajectory_id": names, "group_id": none})
    packs = [batch] if batch.occurrences else []
    lines = [line for pack in packs for line in _lines(pack)]
    return _filled(lines, _in_order(lines, steps), steps, packs)


class _Line:
    """A row to be: tokens `[start, stop)` of a pack, and the rows of the pack whose terms it has."""

    def __init__(self, pack: TreeBatch, start: int) -> None:
        self.pack, self.start, self.stop, self.trained_to = pack, start, start, -1
        self.members: list[int] = []

    @property
    def occurrences(self) -> I64:
        offsets = self.pack.occurrence_offsets.astype(np.int64)
        members = np.array(self.members)
        return ranges(offsets[members], offsets[members + 1] - offsets[members])


def _lines(pack: TreeBatch) -> list[_Line]:
    """Each step with terms goes to the last line of its tree that is trained only before the step's first term."""
    ends = np.repeat(pack.tree_cu_seqlens[1:], np.diff(pack.tree_cu_seqlens))
    if not np.array_equal(pack.subtree_end, ends):
        raise InvalidRecord(
            "merge", "the batch has branches, and rows have none: read with merge='trajectory', or merge='none'"
        )
    offsets = pack.occurrence_offsets.astype(np.int64)
    with_terms = np.flatnonzero(np.diff(offsets))
    at = pack.target_position[pack.occurrence_target].astype(np.int64)
    first, last = at[offsets[with_terms]], at[offsets[with_terms + 1] - 1]
    root = pack.tree_cu_seqlens[np.searchsorted(pack.tree_cu_seqlens, first, side="right") - 1].astype(np.int64)
    stop = root + pack.tree.lengths[with_terms]
    found: list[_Line] = []
    for place in np.lexsort((last, root)).tolist():
        begin = int(root[place])
        line = _goes_on(found, begin, int(first[place]))
        if line is None:
            line = _Line(pack, begin)
            found.append(line)
        line.members.append(int(with_terms[place]))
        line.trained_to, line.stop = int(last[place]), max(line.stop, int(stop[place]))
    return found


def _goes_on(found: list[_Line], begin: int, first: int) -> _Line | None:
    """The last line of the tree that begins there and trains nothing from position `first` on."""
    for line in reversed(found):
        if line.start != begin:
            break
        if line.trained_to < first:
            return line
    return None


def _in_order(lines: list[_Line], steps: pa.Table) -> list[int]:
    """Groups together, in them trajectories, in those the order of steps. Refuses a line of several trajectories."""
    index = steps["step_index"].to_numpy()
    trajectory = _codes(steps["trajectory_id"])
    group = _codes(pc.call_function("coalesce", [steps["group_id"], steps["trajectory_id"]]))
    first = np.array([line.pack.step_index[line.members].min() for line in lines], np.int64)
    for line in lines:
        if len(np.unique(trajectory[np.searchsorted(index, line.pack.step_index[line.members])])) > 1:
            raise InvalidRecord("merge", "a line has steps of two trajectories: read with merge='trajectory' or 'none'")
    places = np.searchsorted(index, first)
    of_trajectory, of_group = (_firsts(codes, index)[codes[places]] for codes in (trajectory, group))
    order: list[int] = np.lexsort((first, of_trajectory, of_group)).tolist()
    return order


def _codes(column: pa.ChunkedArray) -> Array:
    codes: Array = column.combine_chunks().dictionary_encode().indices.to_numpy()
    return codes


def _firsts(codes: Array, index: I64) -> I64:
    """[codes] The least step number of each."""
    found = np.full(int(codes.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(found, codes, index)
    return found


def _filled(lines: list[_Line], order: list[int], steps: pa.Table, packs: list[TreeBatch]) -> Rows:
    lines = [lines[place] for place in order]
    offsets = offsets_of(np.array([line.stop - line.start for line in lines], np.int64))
    total, index = int(offsets[-1]), steps["step_index"].to_numpy()
    tokens, step = np.empty(total, np.int32), np.full(total, -1, np.int64)
    columns: dict[str, F32] = {
        name: np.zeros(total, np.float32)
        for name in ("weight", "old_logprob", "advantage")
        if all(getattr(pack, name) is not None for pack in packs) and (packs or name == "weight")
    }
    for line, offset in zip(lines, offsets.tolist(), strict=False):
        pack, terms = line.pack, line.occurrences
        tokens[offset : offset + line.stop - line.start] = pack.input_ids[line.start : line.stop]
        at = pack.target_position[pack.occurrence_target[terms]] - line.start + offset
        step[at] = np.searchsorted(index, pack.step_index[pack.occurrence_step[terms]])
        for name, values in columns.items():
            values[at] = getattr(pack, name)[terms]
    rows = Rows(tokens=tokens, offsets=offsets, trained=step >= 0, step=step, steps=steps, **columns)
    sampled = sum(pack.occurrences for pack in packs)
    if int(rows.trained.sum()) != sampled:
        raise InvalidRecord("trained", f"{sampled} sampled tokens became {int(rows.trained.sum())} in rows")
    return rows


def _joined(steps: pa.Table, details: pa.Table) -> pa.Table:
    places = {name: place for place, name in enumerate(details["step_id"].to_pylist())}
    missing = [name for name in steps["step_id"].to_pylist() if name not in places]
    if missing:
        raise InvalidRecord("details", f"lack {len(missing)} steps of the batch, {missing[0]} among them")
    found = details.take(pa.array([places[name] for name in steps["step_id"].to_pylist()], pa.int64()))
    for name in details.column_names:
        if name not in steps.column_names:
            steps = steps.append_column(name, found[name])
    return steps
