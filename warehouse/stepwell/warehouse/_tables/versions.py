"""Versions: which rows were committed when.

A version is the number of a commit. Rows do not say their commit, since they are written before anybody can know it; the table
`commits` says, for each commit and producer, up to which of its records it came. A row is part of version N when its number is at most
its producer's *mark* at N. Clocks order nothing: a moment is only a way to find a number.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cached_property
from weakref import WeakKeyDictionary

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stepwell.errors import InvalidRecord

At = int | str | datetime | None
"""A version: a commit's number, `name@version` of a dataset, or a moment (a text is ISO 8601; UTC without a zone). None: the newest."""

_COLUMNS = ["commit", "producer", "after", "sequence", "created_at"]
_KEPT = 64
"""Commits whose marks are remembered."""
_NUMBER = re.compile(r"[0-9]{1,100}")


class History:
    """Every commit of a warehouse, as of one look at the table `commits`."""

    def __init__(self, commits: pa.Table) -> None:
        """`commits`: the table's rows, in any order, without its ledger row."""
        self._rows = commits.select(_COLUMNS).sort_by([("producer", "ascending"), ("sequence", "ascending")])
        self._numbers: NDArray[np.int64] = self._rows["commit"].to_numpy()
        self._marks: dict[int, dict[str, int]] = {}

    @classmethod
    def read(cls, dataset: lance.LanceDataset) -> History:
        """What the table `commits` tells: read once for each version of a `dataset`."""
        version, known = _read.get(dataset, (0, None))
        if known is None or version != dataset.version:
            known = cls(dataset.to_table(columns=_COLUMNS, filter="ledger IS NULL"))
            _read[dataset] = dataset.version, known
        return known

    @cached_property
    def number(self) -> int:
        """The newest commit; 0 when nothing was committed yet."""
        return int(self._numbers.max(initial=0))

    def upto(self, at: int | None = None) -> pa.Table:
        """The rows (commit, producer, after, sequence) of the commits up to number `at`, by producer and sequence."""
        rows = self._rows if at is None or at >= self.number else self._rows.filter(pc.field("commit") <= at)
        return rows.select(_COLUMNS[:-1])

    def marks(self, at: int | None = None) -> dict[str, int]:
        """Each producer's highest record number at commit `at`, by default at the newest."""
        number = self.number if at is None else at
        found = self._marks.get(number)
        if found is None:
            if len(self._marks) >= _KEPT:
                self._marks.clear()
            highest = self.upto(number).group_by("producer").aggregate([("sequence", "max")])
            found = dict(zip(highest["producer"].to_pylist(), highest["sequence_max"].to_pylist(), strict=True))
            self._marks[number] = found
        return dict(found)

    def number_at(self, moment: datetime) -> int:
        """The last commit made at or before `moment`, by the committers' clocks; 0 when there was none. A naive moment is UTC."""
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        limit = pa.scalar(moment.astimezone(UTC), pa.timestamp("us", tz="UTC"))
        made = pc.call_function("less_equal", [self._rows["created_at"], limit]).fill_null(False).to_numpy()
        return int(self._numbers[made].max(initial=0))

    def commit_of(
        self, producers: pa.ChunkedArray | pa.Array, sequences: pa.ChunkedArray | pa.Array
    ) -> NDArray[np.int64]:
        """The commit with which each record became visible: int64, 0 where it is not committed yet or of no producer."""
        numbers = pc.fill_null(sequences, 0).to_numpy(zero_copy_only=False)
        coded = (
            producers.combine_chunks() if isinstance(producers, pa.ChunkedArray) else producers
        ).dictionary_encode()
        codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
        found = np.zeros(len(codes), np.int64)
        order = np.argsort(codes, kind="stable")
        starts = np.searchsorted(codes[order], np.arange(len(coded.dictionary) + 1))
        for code, producer in enumerate(coded.dictionary.to_pylist()):
            if producer in self._by_producer:
                ends, commits = self._by_producer[producer]
                rows = order[starts[code] : starts[code + 1]]
                found[rows] = commits[np.searchsorted(ends, numbers[rows])]
        return found

    @cached_property
    def _by_producer(self) -> dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """The last record of each of a producer's commits, and the commits' numbers, with a 0 for what comes after them."""
        names = self._rows["producer"].combine_chunks().dictionary_encode()
        ends = self._rows["sequence"].to_numpy()
        starts = np.searchsorted(names.indices.to_numpy(), np.arange(len(names.dictionary) + 1))
        return {
            name: (ends[start:stop], np.append(self._numbers[start:stop], 0))
            for name, start, stop in zip(names.dictionary.to_pylist(), starts[:-1], starts[1:], strict=True)
        }


_read: WeakKeyDictionary[lance.LanceDataset, tuple[int, History | None]] = WeakKeyDictionary()
"""Datasets that are still in use, each with the version it was of, and what was read."""


def number_of(at: At, history: History, dataset_at: Callable[[str, int], int]) -> int:
    """The commit that `at` means. `dataset_at` says it of a dataset's version, and raises StoreError when there is none.

    Raises:
        InvalidRecord: it means none, or one that was not made yet; the field is `at`.
    """
    number = history.number if at is None else _meant(at, history, dataset_at)
    if not 0 <= number <= history.number:
        raise InvalidRecord("at", f"there is no commit {number}: the newest is {history.number}")
    return number


def _meant(at: int | str | datetime, history: History, dataset_at: Callable[[str, int], int]) -> int:
    if isinstance(at, datetime):
        return history.number_at(at)
    if isinstance(at, int) and not isinstance(at, bool):
        return at
    text = str(at).strip()
    if _NUMBER.fullmatch(text):
        return int(text)
    name, mark, version = text.rpartition("@")
    if mark and name and _NUMBER.fullmatch(version):
        return dataset_at(name, int(version))
    try:
        return history.number_at(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise InvalidRecord(
            "at", f"{at!r:.80} is no version: give a commit's number, a dataset as name@version, or a time (ISO 8601)"
        ) from None
