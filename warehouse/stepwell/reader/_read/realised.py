"""Steps that have only text, in a selection: which of them get ids, how many, and how these relate to those of the steps they continue.

The ids themselves are not kept: a plan needs lengths. They are made again, the same, when an optimizer step is read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stepwell.reader._arrays import I32, I64, Bools
from stepwell.reader._prefix import neighbour_prefixes
from stepwell.reader._read.source import Source, has_gaps
from stepwell.reader._realise.realise import Realiser
from stepwell.reader._realise.step import WITHOUT_IDS
from stepwell.reader._select.steps import ABSENT, Coded, Steps

OTHERWISE = "rendered otherwise"
"""A cause of drift: the template renders what was said before, or the tokenizer cuts it, not as it did for the step before."""
OTHER_TOKENIZER = "other tokenizer"
"""… one of the two has ids of its own, the other realised ones."""
UNCOMPARED = "parent not in memory"
"""As the warehouse says where nothing was compared: here, a parent that comes behind its step."""
GAPS = "the chat template writes something in the midst of the answer"


class Made(NamedTuple):
    steps: Steps
    """With lengths, fingerprint and drift of what was realised, and the reason of what could not be."""
    notes: dict[str, int]
    """Realised steps by what was left out of them or done otherwise, most first."""


def with_lengths(steps: Steps, realiser: Realiser, source: Source) -> Made:
    """Realise the selected steps that have no ids, and keep what a plan needs.

    Raises:
        StoreError: a step is gone, or cannot be restored.
    """
    rows = np.flatnonzero(_lacking_ids(steps))
    if not len(rows):
        return Made(steps, {})
    found = _Found.of(steps, rows)
    at = 0
    for table in source.realised(steps, rows, realiser):
        found.take(rows[at : at + table.num_rows], table)
        at += table.num_rows
    realised = found.prompt_length >= 0
    good = np.flatnonzero(realised).tolist()
    made = replace(
        steps,
        prompt_length=np.where(realised, found.prompt_length, steps.prompt_length),
        response_length=np.where(realised, found.response_length, steps.response_length),
        realised=realised,
        derived=steps.derived | realised,
        untrainable=_recoded(steps.untrainable, {**dict.fromkeys(good, None), **found.refused}),
        fingerprint=_recoded(steps.fingerprint, dict.fromkeys(good, realiser.fingerprint)),
    )
    return Made(_drifted(made, found), dict(found.notes.most_common()))


def _lacking_ids(steps: Steps) -> Bools:
    """Selected steps with nothing wrong but that; others are left out by rule whatever their ids are."""
    fine = [ABSENT, *(code for code, name in enumerate(steps.untrainable.names) if name in WITHOUT_IDS)]
    able = steps.selected & steps.training & ~steps.superseded & ~steps.side & (steps.response_length == ABSENT)
    lacking: Bools = able & np.isin(steps.untrainable.codes, fine)
    return lacking


@dataclass
class _Found:
    """What is learned of the rows as they go by. Of ids only those are at hand that a later step may go on from."""

    parent: I32
    waiting: I64
    """[N] How many steps are yet to come that continue each."""
    prompt_length: I32
    response_length: I32
    drift_at: dict[int, int] = field(default_factory=dict)
    """By row, where the prompt leaves what it continues."""
    refused: dict[int, str] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    _whole: dict[int, _Whole] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: Steps, rows: I64) -> _Found:
        continued = steps.parent[rows]
        waiting = np.bincount(continued[continued >= 0], minlength=len(steps))
        nothing = np.full(len(steps), ABSENT, np.int32)
        return cls(steps.parent, waiting, nothing, nothing.copy())

    def take(self, rows: I64, table: pa.Table) -> None:
        gaps = has_gaps(table["mask"])
        for row, gap, made in zip(rows.tolist(), gaps.tolist(), _each(table), strict=True):
            reason = made.reason or (GAPS if gap else None)
            if reason is not None:
                self.refused[row] = f"cannot be realised: {reason}"
            else:
                self.notes.update(made.notes)
                self.prompt_length[row], self.response_length[row] = len(made.prompt), len(made.response)
            self._compare(row, None if reason else made)

    def _compare(self, row: int, made: _Row | None) -> None:
        parent = int(self.parent[row])
        before = self._whole.get(parent)
        if made is not None:
            if before is not None and (same := before.shared(made)) < len(before.ids):
                self.drift_at[row] = same
            if self.waiting[row]:
                self._whole[row] = _Whole(np.append(made.prompt, made.response), made.media)
        if parent >= 0:
            self.waiting[parent] -= 1
            if not self.waiting[parent]:
                self._whole.pop(parent, None)


class _Row(NamedTuple):
    prompt: I32
    response: I32
    media: list[dict[str, Any]]
    notes: list[str]
    reason: str | None


class _Whole(NamedTuple):
    """A prompt with its response, and what its placeholders stand for."""

    ids: I32
    media: list[dict[str, Any]]

    def shared(self, following: _Row) -> int:
        """How many tokens the prompt begins with that are these, images by what they show."""
        limit = min(len(self.ids), len(following.prompt))
        both = np.append(self.ids[:limit], following.prompt[:limit])
        same = int(neighbour_prefixes(both, np.array([0, limit]), np.array([limit, limit]))[1])
        for one, other in zip(self.media, following.media, strict=False):
            if one != other:
                same = min(same, int(one["position"]), int(other["position"]))
                break
        return same


def _each(table: pa.Table) -> Iterator[_Row]:
    columns = (table[name] for name in ("prompt_ids", "response_ids", "media", "notes", "reason"))
    for prompt, response, media, notes, reason in zip(*columns, strict=True):
        if reason.is_valid:
            yield _Row(_NONE, _NONE, [], [], reason.as_py())
        else:
            yield _Row(_ids(prompt), _ids(response), media.as_py() or [], notes.as_py() or [], None)


_NONE = np.empty(0, np.int32)


def _ids(value: Any) -> I32:
    ids: I32 = value.values.to_numpy()
    return ids


def _drifted(steps: Steps, found: _Found) -> Steps:
    parent = steps.parent
    both = (parent >= 0) & (steps.prompt_length >= 0) & (steps.prompt_length[parent] >= 0)
    apart = np.flatnonzero(both & (steps.realised != steps.realised[parent])).tolist()
    late = np.flatnonzero(both & steps.realised & steps.realised[parent] & (parent > np.arange(len(steps)))).tolist()
    drift_at = steps.drift_at.copy()
    drift_at[apart] = drift_at[late] = ABSENT  # nothing was compared
    drift_at[list(found.drift_at)] = list(found.drift_at.values())
    causes = [(apart, OTHER_TOKENIZER), (late, UNCOMPARED), (found.drift_at, OTHERWISE)]
    texts: dict[int, str | None] = {row: cause for rows, cause in causes for row in rows}
    return replace(steps, drift_at=drift_at, drift=_recoded(steps.drift, texts))


def _recoded(column: Coded, changed: Mapping[int, str | None]) -> Coded:
    """The column with other texts in these rows; None is none."""
    numbers = {name: code for code, name in enumerate(column.names)}
    codes = column.codes.copy()
    for row, text in changed.items():
        codes[row] = ABSENT if text is None else numbers.setdefault(text, len(numbers))
    return Coded(codes, tuple(numbers))
