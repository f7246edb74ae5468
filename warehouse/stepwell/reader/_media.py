"""Images and the like in prefix merging: equal placeholder ids are not equal images.

Ids of which it is known what they stand for are compared by that. Of steps as an engine tokenized them only the messages are known: which
images they show, in order, and not which ids those became. Then a step shares an image with another one only on evidence: some step
that shows no more than what both show in the beginning has the same ids, so all of its images lie in them, and they are the same in both.
Without evidence nothing is shared; tokens are computed twice then, and nothing else changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I64, INT32_MAX
from stepwell.reader._prefix import PrefixOrder, prefix_order
from stepwell.reader._sequences import Sequences

NOT_TOLD = "no messages that would tell its media"
NO_HASH = "media without a content hash"
NO_PLACES = "other media, and nothing tells which ids stand for them"


@dataclass(frozen=True)
class Media:
    """What the rows of some sequences show beside text."""

    shown: Sequence[Sequence[str | None] | None]
    """For each row the content hashes in order, None for one that is not known; None where all of it is not known."""
    places: Mapping[int, Sequence[tuple[int, str]]]
    """Rows of which it is known: position and hash of each placeholder. `shown` is not looked at for them."""

    def any(self) -> bool:
        """Whether there is something to tell apart."""
        return any(self.shown) or any(self.places.values())


class Keyed(NamedTuple):
    """Sequences to compare prefixes by."""

    sequences: Sequences
    apart: dict[str, int]
    """Rows that begin with more ids of another than they may share with any, by reason."""


def keyed(sequences: Sequences, media: Media | None) -> Keyed:
    """The same sequences, with made-up ids where what was shown has to be equal, too, from there on."""
    if media is None or not media.any():
        return Keyed(sequences, {})
    by_ids = prefix_order(sequences)
    names: list[tuple[int, object]] = [
        (int(sequences.offsets[row]) + place, digest) for row, found in media.places.items() for place, digest in found
    ]
    lists = {row: _known(row, shown) for row, shown in enumerate(media.shown) if row not in media.places}
    for row, place, node in _Lists(lists).begins(by_ids, sequences.lengths):
        at = int(sequences.offsets[row]) + place
        names.append((at, (int(sequences.tokens[at]), node)))
    made = with_keys(sequences, [place for place, _ in names], [name for _, name in names])
    return Keyed(made, _apart(by_ids, prefix_order(made), media))


def with_keys(sequences: Sequences, places: Sequence[int], names: Sequence[object]) -> Sequences:
    """The same sequences with an id of its own for each different name at these `places` of `tokens`.

    Raises:
        InvalidRecord: no ids are left for that.
    """
    numbers: dict[object, int] = {}
    keys = [INT32_MAX - numbers.setdefault(name, len(numbers)) for name in names]
    if keys and sequences.tokens.max() >= min(keys):
        most = sequences.tokens.max()
        raise InvalidRecord("tokens", f"reach {most}, which leaves no ids to tell {len(numbers)} contents apart")
    tokens = sequences.tokens.copy()
    tokens[np.array(places, np.int64)] = keys
    return Sequences(tokens, sequences.offsets, sequences.prompt_lengths, sequences.step_index)


def _known(row: int, shown: Sequence[str | None] | None) -> tuple[object, ...]:
    """What is not known is like nothing else; steps without messages are like each other, as all are in trainings without images."""
    if shown is None:
        return (NOT_TOLD,)
    return tuple((row, place) if digest is None else digest for place, digest in enumerate(shown))


class _Lists:
    """Lists of contents, by row, as paths of a trie: numbers of its nodes, of which 0 is the empty list."""

    def __init__(self, shown: Mapping[int, tuple[object, ...]]) -> None:
        numbers: dict[tuple[int, object], int] = {}
        self._paths: dict[int, list[int]] = {}
        for row, contents in shown.items():
            self._paths[row] = path = [0]
            for content in contents:
                path.append(numbers.setdefault((path[-1], content), len(numbers) + 1))

    def begins(self, by_ids: PrefixOrder, lengths: I64) -> list[tuple[int, int, int]]:
        """(row, position, node): from which of its tokens on a row may show as much as the node says, for all nodes that matter.

        A row that shows just a node's list has all of it in its tokens. So another one that shows this and more has the more behind what
        it shares with that row, at the earliest.
        """
        place = np.empty(len(lengths), np.int64)
        place[by_ids.order] = np.arange(len(lengths))
        just: dict[int, list[int]] = {}
        for row, path in self._paths.items():
            just.setdefault(path[-1], []).append(int(place[row]))
        places = {node: np.sort(some) for node, some in just.items()}
        least = _Least(by_ids.shared)
        found: list[tuple[int, int, int]] = []
        for row, path in self._paths.items():
            reached = 0
            for node in path[:-1]:
                if node in places:
                    found.append((row, reached, node))
                    reached = max(reached, least.nearest(places[node], int(place[row])))
            found.append((row, reached, path[-1]))
        return [(row, at, node) for row, at, node in found if node and at < lengths[row]]


class _Least:
    """Common prefixes of any two rows in order: the least of what each between them shares with the one before."""

    def __init__(self, shared: I64) -> None:
        self._least = [shared]
        while (step := 1 << (len(self._least) - 1)) < len(shared):
            further = self._least[-1].copy()
            np.minimum(further[:-step], self._least[-1][step:], out=further[:-step])
            self._least.append(further)

    def nearest(self, places: I64, place: int) -> int:
        """The longest prefix that the row at `place` has in common with one of those at `places`, ascending."""
        at = int(np.searchsorted(places, place))
        before = self.between(int(places[at - 1]), place) if at else 0
        return max(before, self.between(place, int(places[at])) if at < len(places) else 0)

    def between(self, first: int, last: int) -> int:
        """Of two different places, the first one before the last."""
        level = (last - first).bit_length() - 1
        return int(min(self._least[level][first + 1], self._least[level][last + 1 - (1 << level)]))


def _apart(by_ids: PrefixOrder, by_keys: PrefixOrder, media: Media) -> dict[str, int]:
    """Rows that would have shared more by their ids, but those of which all is known."""
    less = _most_shared(by_keys) < _most_shared(by_ids)
    counts: Counter[str] = Counter()
    for row in np.flatnonzero(less).tolist():
        if row not in media.places:
            shown = media.shown[row]
            counts[NOT_TOLD if shown is None else NO_HASH if None in shown else NO_PLACES] += 1
    return dict(counts)


def _most_shared(prefixes: PrefixOrder) -> I64:
    """[N] The longest prefix that each row has in common with any other."""
    most = np.empty(len(prefixes.order), np.int64)
    most[prefixes.order] = np.maximum(prefixes.shared, np.append(prefixes.shared[1:], 0))
    return most
