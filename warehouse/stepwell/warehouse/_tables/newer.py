"""The rows of a table whose records came in a certain range, without a look at all the others.

Fragments never change what they hold, so which records each has is found out once: of large ones when they are asked a second time,
since a process that asks once is sooner done with the few rows whose numbers fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from stepwell.warehouse._tables.numbers import as_arrow

_Range = tuple[int, int]

_LARGE = 50_000
"""Rows that take so long to look at that it is put off."""
_FEW = 10_000
"""Rows that may be read in vain instead."""


class Newer:
    """For the successive versions of one table."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, _Range]] = {}
        """By the file of a fragment, its producers' first and last records."""
        self._put_off: set[str] = set()
        """Files that were asked once."""

    def rows(
        self, dataset: lance.LanceDataset, after: Mapping[str, int], upto: Mapping[str, int], columns: Sequence[str]
    ) -> pa.Table:
        """These columns of the rows above the marks `after` (0 where there is none), up to the marks `upto`, in no order.

        Raises:
            OSError: the store failed; and whatever else Lance raises then.
        """
        wanted = {name: (after.get(name, 0), mark) for name, mark in upto.items() if mark > after.get(name, 0)}
        names = list(dict.fromkeys([*columns, "producer", "sequence"]))
        fragments, there = list[lance.LanceFragment](), set[str]()
        for fragment, held in self._fragments(dataset, wanted) if wanted else ():
            fits = {name for name in held.keys() & wanted.keys() if _overlap(held[name], wanted[name])}
            if fits:
                fragments.append(fragment)
                there |= fits
        if not fragments:
            return dataset.schema.empty_table().select(list(columns))
        narrow = _narrow([wanted[name] for name in there])
        found = dataset.scanner(columns=names, fragments=fragments, filter=narrow).to_table()
        return found.filter(as_arrow(_within(found, wanted))).select(list(columns))

    def _fragments(
        self, dataset: lance.LanceDataset, wanted: Mapping[str, _Range]
    ) -> list[tuple[lance.LanceFragment, Mapping[str, _Range]]]:
        """Each with what it holds; of what it was put off to look at, with what is wanted of it."""
        there = {_file(one): one for one in dataset.get_fragments()}
        self._held = {file: held for file, held in self._held.items() if file in there}
        unknown = {one.fragment_id: file for file, one in there.items() if file not in self._held}
        if self._put_off.isdisjoint(unknown.values()) and _few(
            dataset, [there[file] for file in unknown.values()], wanted
        ):
            self._put_off = set(unknown.values())
        else:
            self._look(dataset, [there[file] for file in unknown.values()], unknown)
        return [(one, self._held.get(file, wanted)) for file, one in there.items()]

    def _look(
        self, dataset: lance.LanceDataset, fragments: Sequence[lance.LanceFragment], files: Mapping[int, str]
    ) -> None:
        if not fragments:
            return
        read = dataset.scanner(columns=["producer", "sequence"], fragments=fragments, with_row_address=True).to_table()
        place = as_arrow((read["_rowaddr"].to_numpy() >> 32).astype(np.int64))
        ranges = (
            pa.table({"place": place, "producer": read["producer"], "sequence": read["sequence"]})
            .group_by(["place", "producer"])
            .aggregate([("sequence", "min"), ("sequence", "max")])
        )
        self._held |= {file: {} for file in files.values()}
        for row in ranges.to_pylist():
            if row["producer"] is not None:
                self._held[files[row["place"]]][row["producer"]] = (row["sequence_min"], row["sequence_max"])


def _few(dataset: lance.LanceDataset, fragments: Sequence[lance.LanceFragment], wanted: Mapping[str, _Range]) -> bool:
    """Whether these are large, and have few rows whose numbers fit, of whichever producer."""
    if sum(one.physical_rows for one in fragments) < _LARGE:
        return False
    fit: int = dataset.scanner(fragments=fragments, filter=_narrow(wanted.values())).count_rows()
    return fit <= _FEW


def _narrow(ranges: Iterable[_Range]) -> str:
    firsts, lasts = zip(*ranges, strict=True)
    return f"sequence > {min(firsts)} AND sequence <= {max(lasts)}"


def _overlap(held: _Range, wanted: _Range) -> bool:
    return held[0] <= wanted[1] and held[1] > wanted[0]


def _file(fragment: lance.LanceFragment) -> str:
    return str(fragment.metadata.files[0].path)


def _within(rows: pa.Table, wanted: Mapping[str, _Range]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which rows are of records in their producer's range."""
    coded = rows["producer"].combine_chunks().dictionary_encode()
    nothing = (0, 0)
    ranges = [wanted.get(name, nothing) for name in coded.dictionary.to_pylist()]
    limits = np.array([*ranges, nothing], np.int64)[
        pc.fill_null(coded.indices, len(ranges)).to_numpy(zero_copy_only=False)
    ]
    numbers = pc.fill_null(rows["sequence"], 0).to_numpy()
    return np.asarray((numbers > limits[:, 0]) & (numbers <= limits[:, 1]), np.bool_)
