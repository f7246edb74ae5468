"""Ids that were committed lately: what a writer cannot have seen when it looked whether its ids are new."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

MAX_IDS = 100_000
"""Ids kept of a table: about 25 MB."""


class Recent:
    """Submitted ids of one table, with the version that they came with, as far back as `start`."""

    def __init__(self) -> None:
        self.start = 1 << 62
        """The oldest version of the table after which every id is known."""
        self._marks: Mapping[str, int] | None = None
        self._ids: OrderedDict[str, tuple[int, str]] = OrderedDict()

    def follow(self, marks: Mapping[str, int], version: int) -> None:
        """The table has these marks now, at this version. Others than it had after the last `add`: somebody else committed to it."""
        if marks != self._marks:
            self._ids.clear()
            self.start, self._marks = version, marks

    def add(self, ids: Iterable[str], writer: str, version: int, marks: Mapping[str, int]) -> None:
        """These ids of `writer` came with `version`, after which the table has these marks."""
        self._marks = marks
        self._ids.update((id_, (version, writer)) for id_ in ids)
        while len(self._ids) > MAX_IDS:
            _, (gone, _) = self._ids.popitem(last=False)
            self.start = max(self.start, gone)

    def among(self, ids: Iterable[str], since: int, writer: str) -> set[str]:
        """Which of these came after version `since`, from another writer than this one."""
        found = {id_: self._ids[id_] for id_ in ids if id_ in self._ids}
        return {id_ for id_, (version, by) in found.items() if version > since and by != writer}
