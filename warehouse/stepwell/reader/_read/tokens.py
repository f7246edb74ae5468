"""The tokens of some steps, out of the warehouse and into one flat array, a bounded number at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import F32, I32, I64, Array, offsets_of, ranges
from stepwell.reader._media import Media
from stepwell.reader._read.contents import ALTERED
from stepwell.reader._read.source import Source
from stepwell.reader._select.rules import OnError
from stepwell.reader._select.steps import Steps
from stepwell.reader._sequences import Sequences


class Room:
    """Memory for the tokens of one optimizer step, used again for the next: fresh pages cost as much as copying into them."""

    def __init__(self) -> None:
        self._tokens: I32 = np.empty(0, np.int32)

    def tokens(self, count: int) -> I32:
        """i32 [count] of whatever; what was handed out before is no longer valid."""
        if len(self._tokens) < count:
            self._tokens = np.empty(0, np.int32)  # let go of the old ones before asking for more
            self._tokens = np.empty(count, np.int32)
        return self._tokens[:count]


class Read(NamedTuple):
    sequences: Sequences
    """`step_index` is the row of `Steps`; tokens lie in the `Room`."""
    media: Media | None
    """None where it was not asked for."""
    skipped: dict[str, int]
    """Steps that are not there, by reason."""


def read_sequences(
    source: Source, steps: Steps, rows: I64, kept: I32, room: Room, *, logprobs: bool, media: bool, on_error: OnError
) -> Read:
    """These steps as sequences, in memory of `room`.

    Args:
        rows: i64, the steps to read, in this order.
        kept: i32 [N] tokens of each response to take.
        media: what they show beside text, too.

    Raises:
        InvalidRecord: with `on_error="raise"`: ids of another number than was planned, a negative id, a logprob that is not finite;
            content that is compared, and not the same.
        StoreError: a step is gone, or cannot be restored.
    """
    filling = _Filling(steps, rows, kept, room, logprobs, media)
    columns = ["prompt_ids", "response_ids", *(["logprobs"] if logprobs else []), *(["media"] if media else [])]
    for batch in source.batches(steps, rows, columns):
        filling.take(batch)
    if filling.done != len(rows):
        raise InvalidRecord("step_id", f"{filling.done} of {len(rows)} steps were read")
    sequences = filling.sequences()
    for place, (name, why) in filling.wrong.items():
        if on_error == "raise":
            raise InvalidRecord(
                name, f"{steps.name(int(rows[place]))}: {why}; select others, or skip such steps (on_error='skip')"
            )
    return Read(sequences, filling.media() if media else None, filling.reasons())


@dataclass
class _Filling:
    """Flat arrays of the planned lengths, and how far they are filled. One copy: each row goes where it will stay."""

    steps: Steps
    rows: I64
    kept: I32
    room: Room
    with_logprobs: bool
    with_media: bool
    done: int = 0
    wrong: dict[int, tuple[str, str]] = field(default_factory=dict)
    """By place among `rows`: field and reason."""
    shown: list[list[str | None] | None] = field(default_factory=list)
    places: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    """By place among `rows`; both as `Media` has them."""

    def __post_init__(self) -> None:
        self.prompts = self.steps.prompt_length[self.rows].astype(np.int64)
        self.responses = self.kept[self.rows].astype(np.int64)
        self.offsets = offsets_of(self.prompts + self.responses)
        self.response_offsets = offsets_of(self.responses)
        self.tokens = self.room.tokens(int(self.offsets[-1]))
        size = int(self.response_offsets[-1]) if self.with_logprobs else 0
        self.logprobs: F32 = np.empty(size, np.float32)

    def take(self, batch: pa.RecordBatch) -> None:
        some = slice(self.done, self.done + batch.num_rows)
        self.done += batch.num_rows
        if ALTERED in batch.schema.names:
            self._note_altered(some.start, batch[ALTERED])
        whole = self.steps.response_length[self.rows[some]].astype(np.int64)
        prompt, at = _values(batch["prompt_ids"], pa.int32())
        same = self._check(some, "prompt_ids", np.diff(at), self.prompts[some])
        _copy(self.tokens, self.offsets[some], prompt, at[:-1], np.where(same, self.prompts[some], 0))
        response, at = _values(batch["response_ids"], pa.int32())
        same = self._check(some, "response_ids", np.diff(at), whole)
        begin = self.offsets[some] + self.prompts[some]
        _copy(self.tokens, begin, response, at[:-1], np.where(same, self.responses[some], 0))
        if self.with_logprobs:
            values, at = _values(batch["logprobs"], pa.float32())
            same = self._check(some, "logprobs", np.diff(at), whole)
            _copy(self.logprobs, self.response_offsets[some], values, at[:-1], np.where(same, self.responses[some], 0))
        if self.with_media:
            self.shown += batch["media"].to_pylist()
            if "places" in batch.schema.names:
                self._note_places(some.start, batch["places"].to_pylist())

    def _note_altered(self, start: int, altered: pa.Array) -> None:
        for place in np.flatnonzero(altered.to_numpy(zero_copy_only=False)).tolist():
            self.wrong.setdefault(start + place, ("content_hash", "its content is not what was stored"))

    def _note_places(self, start: int, rows: Iterable[list[dict[str, Any]] | None]) -> None:
        """Of realised rows all is known, also that they show nothing."""
        for place, found in enumerate(rows, start):
            if found is not None:
                self.shown[place] = []
                if found:
                    self.places[place] = [(one["position"], one["hash"]) for one in found]

    def media(self) -> Media:
        """Of what is right."""
        good = [place for place in range(len(self.rows)) if place not in self.wrong]
        places = {at: self.places[place] for at, place in enumerate(good) if place in self.places}
        return Media([self.shown[place] for place in good], places)

    def sequences(self) -> Sequences:
        """What was read, without the rows that are wrong. Values are looked at twice only where `Sequences` refuses some."""
        try:
            return self._right()
        except InvalidRecord:
            known = len(self.wrong)
            self._find_wrong_values()
            if len(self.wrong) == known:
                raise
        return self._right()

    def _right(self) -> Sequences:
        good = np.setdiff1d(np.arange(len(self.rows)), list(self.wrong))
        tokens, logprobs, offsets, prompts = self.tokens, self.logprobs, self.offsets, self.prompts
        if len(good) < len(self.rows):
            lengths = self.responses[good]
            tokens = tokens[ranges(offsets[good], prompts[good] + lengths)]
            logprobs = logprobs[ranges(self.response_offsets[good], lengths)] if self.with_logprobs else logprobs
            offsets, prompts = offsets_of(prompts[good] + lengths), prompts[good]
        return Sequences(tokens, offsets, prompts, self.rows[good], logprobs if self.with_logprobs else None)

    def reasons(self) -> dict[str, int]:
        found = [f"{name}: {why}" for name, why in self.wrong.values()]
        return {reason: found.count(reason) for reason in dict.fromkeys(found)}

    def _check(self, some: slice, name: str, found: I64, wanted: I64) -> Array:
        same: Array = found == wanted
        for place in np.flatnonzero(~same).tolist():
            self.wrong.setdefault(some.start + place, (name, "not as many as was planned"))
        return same

    def _find_wrong_values(self) -> None:
        self._blame(self.offsets, self.tokens < 0, ("prompt_ids", "negative id"))
        self._blame(self.response_offsets, ~np.isfinite(self.logprobs), ("logprobs", "not finite"))

    def _blame(self, offsets: I64, values: Array, why: tuple[str, str]) -> None:
        for place in np.unique(np.searchsorted(offsets, np.flatnonzero(values), side="right") - 1).tolist():
            self.wrong.setdefault(place, why)


def _values(column: pa.Array, kind: pa.DataType) -> tuple[Array, I64]:
    """Flat values and offsets [rows+1] of a list column; a null row has no values, and shows as one of another length."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    values = column.values.cast(kind).to_numpy(zero_copy_only=False)
    return values, offsets


def _copy(into: Array, targets: I64, values: Array, sources: I64, counts: I64) -> None:
    """One memory copy per row: through memory views, whose slices cost a third of numpy's."""
    target, source = memoryview(into), memoryview(values)
    moves: Iterable[tuple[int, int, int]] = zip(targets.tolist(), sources.tolist(), counts.tolist(), strict=True)
    for to, begin, count in moves:
        target[to : to + count] = source[begin : begin + count]
