"""Steps of one request: checked one by one, their lists kept as arrays, and written as one record of kind `steps`.

A `Step` finds the fault of everything but the tokens; those are looked at as a whole, by numpy. So a step costs a model, and a token
nothing but its bytes. The form of the record is Arrow IPC with the fields of `Step` as columns.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from stepwell.errors import InvalidRecord
from stepwell.gateway._declarations import Declarations
from stepwell.gateway._memory import hashed
from stepwell.gateway._records import HEAD, Checked, NewId, named, refused
from stepwell.sdk.records import MAX_IDS, MAX_LOGPROB, Step, checked, encoded
from stepwell.spool import Entry
from stepwell.warehouse import StepColumns

__all__ = ["Row", "row_with", "rows_of", "steps_entry", "with_entries"]

JSON, TIMES = StepColumns.JSON, StepColumns.TIMES
LISTS = {name: np.dtype(np.float32 if name == "logprobs" else np.int32) for name in StepColumns.LISTS}
_PLAIN = tuple(name for name in Step.model_fields if name not in LISTS)
_LEFT_OUT = {name: field.default for name, field in Step.model_fields.items() if not field.default_factory}
LEAST_LOGPROB = float(np.finfo(np.float32).min)

Array = NDArray[Any]


@dataclass(slots=True, kw_only=True)
class Row(Checked):
    """One step of a request. `lists` are its prompt, response and logprobs; None where it has none."""

    step: Step
    lists: tuple[Array | None, ...]
    whole: bool = True
    """`step` holds the lists, too."""


def rows_of(records: Sequence[object], new_id: NewId, *, booleans: bool = True) -> list[Checked]:
    """Steps from plain values. `booleans`: there are some, which must not be taken for numbers. Never raises for bad input."""
    if len(records) == 1:
        return [_looked_at(records[0], new_id)]
    return [_quickly(values, new_id, booleans) or _looked_at(values, new_id) for values in records]


def _quickly(values: object, new_id: NewId, booleans: bool) -> Checked | None:
    """A step whose lists are plainly right, with one token in the place of many; None for all others."""
    if not isinstance(values, dict):
        return None
    given = [name for name in LISTS if values.get(name) is not None]
    found = {name: packed for name in given if (packed := _packed(name, values[name], booleans)) is not None}
    lists = tuple(found.get(name) for name in LISTS)
    _, response, logprobs = lists
    if len(found) < len(given) or (logprobs is not None and (response is None or len(response) != len(logprobs))):
        return None
    try:
        step = checked(Step, named("step", {**values, **{name: [0] for name in found}}, new_id))
    except InvalidRecord as error:
        return refused("step", values, error)
    return row_with(step, lists, whole=False)


def _looked_at(values: object, new_id: NewId) -> Checked:
    """A step whose every token is looked at, so that what is wrong with one can be said."""
    try:
        step = checked(Step, named("step", values, new_id))
    except InvalidRecord as error:
        return refused("step", values, error)
    if step.logprobs and (least := min(step.logprobs)) < LEAST_LOGPROB:
        return refused("step", values, InvalidRecord("logprobs", f"{least} is less than a 32-bit float can say"))
    return row_with(step, tuple(_array(step, name) for name in LISTS))


def _packed(name: str, value: object, booleans: bool) -> Array | None:
    """A list as numbers, if it is one of right numbers and nothing else; looked at as a whole."""
    if type(value) is not list or not 0 < len(value) <= MAX_IDS:
        return None
    if booleans and bool in set(map(type, value)):
        return None
    try:
        if name == "logprobs":
            reals = np.frombuffer(array("d", value))
            right = reals.min() >= LEAST_LOGPROB and reals.max() <= MAX_LOGPROB
            return reals.astype(np.float32) if right else None
        ids = np.frombuffer(array("I", value), np.int32)
        return ids if ids.min() >= 0 else None
    except (TypeError, OverflowError):
        return None


def row_with(step: Step, lists: tuple[Array | None, ...], *, whole: bool = True) -> Row:
    """A step that was found to be right."""
    return Row(step.step_id, key=hashed(f"step.{step.step_id}"), step=step, lists=lists, whole=whole)


def with_entries(items: Sequence[Checked], declarations: Declarations) -> None:
    """Give each step what is declared of its policy, and the entry it is kept by: one for all, where there are several."""
    rows = [item for item in items if isinstance(item, Row)]
    for row in rows:
        row.step = declarations.stamp(row.step)
    if len(rows) == 1 and rows[0].whole:
        rows[0].entries = (Entry(f"step.{rows[0].id}", "step", HEAD, encoded(rows[0].step)),)
    elif rows:
        entry = steps_entry(rows)
        for row in rows:
            row.entries = (entry,)


def steps_entry(rows: Sequence[Row]) -> Entry:
    """One record of all of them. Its id follows from theirs: the same request again is the same record."""
    steps = [row.step for row in rows]
    columns: dict[str, pa.Array] = {}
    for name in _PLAIN:
        values = [getattr(step, name) for step in steps]
        if values.count(_LEFT_OUT.get(name)) != len(values):
            columns[name] = _column(name, values)
    for at, (name, dtype) in enumerate(LISTS.items()):
        lists = [row.lists[at] for row in rows]
        if any(one is not None for one in lists):
            columns[name] = _list_column(lists, dtype)
    batch, sink = pa.RecordBatch.from_pydict(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    digest = hashlib.blake2b(b"".join(row.key for row in rows), digest_size=16).hexdigest()
    return Entry(f"{StepColumns.RECORD}.{digest}", StepColumns.RECORD, HEAD, sink.getvalue().to_pybytes())


def _column(name: str, values: list[Any]) -> pa.Array:
    if name in JSON:
        return pa.array(
            [None if value is None else orjson.dumps(value).decode() for value in values], pa.large_string()
        )
    return pa.array(values, pa.timestamp("us", "UTC") if name in TIMES else StepColumns.OTHERS.get(name, pa.string()))


def _list_column(lists: Sequence[Array | None], dtype: np.dtype[Any]) -> pa.Array:
    ends = np.cumsum([0, *(0 if one is None else len(one) for one in lists)], dtype=np.int32)
    given = [one for one in lists if one is not None]
    items = np.concatenate(given, dtype=dtype, casting="unsafe") if given else np.empty(0, dtype)
    absent = pa.array([one is None for one in lists]) if len(given) != len(lists) else None
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(items), mask=absent)


def _array(step: Step, name: str) -> Array | None:
    """A checked list as an array; ids were packed when they were looked at."""
    values = getattr(step, name)
    packed = getattr(values, "packed", None)
    return None if values is None else np.asarray(values if packed is None else packed).astype(LISTS[name])
