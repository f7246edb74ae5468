"""The rows of a table whose records came in a certain range, without a look at all the others.

Fragments never change what they hold, so which records each has is found out once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_Range = tuple[int, int]


class Newer:
    """For the successive versions of one table."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, _Range]] = {}
        """By the file of a fragment, its producers' first and last records."""

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
        for fragment, held in self._fragments(dataset if wanted else None):
            fits = {name for name in held.keys() & wanted.keys() if _overlap(held[name], wanted[name])}
            if fits:
                fragments.append(fragment)
                there |= fits
        if not fragments:
            return dataset.schema.empty_table().select(list(columns))
        ranges = [wanted[name] for name in there]
        narrow = f"sequence > {min(first for first, _ in ranges)} AND sequence <= {max(last for _, last in ranges)}"
        found = dataset.scanner(columns=names, fragments=fragments, filter=narrow).to_table()
        return found.filter(pa.array(_within(found, wanted))).select(list(columns))

    def _fragments(self, dataset: lance.LanceDataset | None) -> list[tuple[lance.LanceFragment, dict[str, _Range]]]:
        """Each with what it holds."""
        there = {_file(one): one for one in dataset.get_fragments()} if dataset is not None else {}
        if dataset is not None:
            self._held = {file: held for file, held in self._held.items() if file in there}
            unknown = {one.fragment_id: file for file, one in there.items() if file not in self._held}
            self._look(dataset, [there[file] for file in unknown.values()], unknown)
        return [(one, self._held[file]) for file, one in there.items()]

    def _look(
        self, dataset: lance.LanceDataset, fragments: Sequence[lance.LanceFragment], files: Mapping[int, str]
    ) -> None:
        if not fragments:
            return
        read = dataset.scanner(columns=["producer", "sequence"], fragments=fragments, with_row_address=True).to_table()
        place = pa.array(read["_rowaddr"].to_numpy() >> 32)
        ranges = (
            pa.table({"place": place, "producer": read["producer"], "sequence": read["sequence"]})
            .group_by(["place", "producer"])
            .aggregate([("sequence", "min"), ("sequence", "max")])
        )
        self._held |= {file: {} for file in files.values()}
        for row in ranges.to_pylist():
            if row["producer"] is not None:
                self._held[files[row["place"]]][row["producer"]] = (row["sequence_min"], row["sequence_max"])


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
