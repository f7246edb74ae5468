"""The packs of one optimizer step: for several ranks about ten budgets are tried, and the one whose slowest rank is done first is kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from stepwell.errors import InvalidRecord
from stepwell.reader._arrays import I64
from stepwell.reader._pack.bins import best_fit_decreasing, longest_first
from stepwell.reader._pack.cuts import Interval, pieces_of


@dataclass(frozen=True, eq=False)
class Pack:
    """Some rows of a forest in prefix order, to be computed together. An empty one keeps its rank in step with the others."""

    places: I64
    """[S] Places in prefix order, ascending."""
    shared: I64
    """[S] Tokens each row shares with the one before it *in the pack*; 0 where a tree begins."""
    tokens: int
    """What it computes."""


@dataclass(frozen=True, eq=False)
class Packing:
    """Packs by rank, equally many on each, and how good they are."""

    ranks: tuple[tuple[Pack, ...], ...]
    budget: int
    """That of the ones tried which was kept; no pack is larger."""
    unique: int
    """Tokens of the forest, each once."""
    longest: int
    """Tokens of the longest row."""

    @cached_property
    def loads(self) -> tuple[int, ...]:
        """Tokens of each rank."""
        return tuple(sum(pack.tokens for pack in packs) for packs in self.ranks)

    @property
    def tokens(self) -> int:
        """Of all packs: `unique`, and what is computed again because trees were cut."""
        return sum(self.loads)

    @property
    def makespan(self) -> int:
        """Tokens of the rank that has most."""
        return max(self.loads)

    @property
    def bound(self) -> int:
        """No packing has a smaller makespan: an equal share of the unique tokens, or the longest row."""
        return max(-(-self.unique // len(self.ranks)), self.longest)

    @property
    def packs(self) -> int:
        """How many, empty ones included."""
        return sum(map(len, self.ranks))

    @property
    def empty(self) -> int:
        """How many have no rows."""
        return sum(not len(pack.places) for packs in self.ranks for pack in packs)


def pack_forest(lengths: I64, shared: I64, *, budget: int, ranks: int = 1) -> Packing:
    """Pack S rows in prefix order onto `ranks`. Whole rows move: a loss term is always where its target is.

    Args:
        lengths: i64 [S] tokens of each row.
        shared: i64 [S] tokens it shares with the row before; 0 where a tree begins, as in the first place.
        budget: most tokens of a pack.
        ranks: data-parallel ranks.

    Raises:
        InvalidRecord: a row longer than `budget`; no rank.
    """
    if ranks < 1:
        raise InvalidRecord("ranks", f"must be at least 1, is {ranks}")
    unique, longest = int((lengths - shared).sum()), int(lengths.max()) if len(lengths) else 0
    tried = [
        Packing(_packed(lengths, shared, some, ranks), some, unique, longest)
        for some in _budgets(unique, longest, budget, ranks)
    ]
    return min(tried, key=lambda one: (one.makespan, one.tokens, one.packs, -one.budget))


def _budgets(unique: int, longest: int, most: int, ranks: int) -> list[int]:
    """The largest first: fractions of `most`, and those at which every rank would have its share in equally many full packs."""
    if ranks == 1:  # whatever one rank does in smaller packs it does in larger ones, with fewer cuts
        return [most]
    rounds = -(-unique // (most * ranks)) or 1
    shares = [unique / (ranks * count) for count in (rounds, rounds + 1)]
    wanted = [most * eighths // 8 for eighths in range(8, 4, -1)]
    wanted += [int(share * slack) for share in shares for slack in (1.03, 1.1, 1.2, 1.35)]
    return sorted({max(longest, one) for one in wanted if max(longest, one) <= most} | {most}, reverse=True)


def _packed(lengths: I64, shared: I64, budget: int, ranks: int) -> tuple[tuple[Pack, ...], ...]:
    pieces = pieces_of(lengths, shared, budget)
    own = np.concatenate([[0], np.cumsum(lengths - shared)])
    sizes = np.array([own[stop] - own[start] + shared[start] for start, stop in pieces], np.int64)
    packs = [
        _pack(lengths, shared, sorted(pieces[item] for item in items)) for items in best_fit_decreasing(sizes, budget)
    ]
    by_rank = longest_first(np.array([pack.tokens for pack in packs], np.int64), ranks)
    most = max(map(len, by_rank))
    nothing = Pack(np.zeros(0, np.int64), np.zeros(0, np.int64), 0)
    return tuple(tuple([packs[item] for item in items] + [nothing] * (most - len(items))) for items in by_rank)


def _pack(lengths: I64, shared: I64, pieces: Sequence[Interval]) -> Pack:
    """Two pieces of one tree that meet again share what all rows between them do: the least of their shared lengths."""
    places = np.concatenate([np.arange(start, stop) for start, stop in pieces])
    common = shared[places]
    at = 0
    for (start, stop), (following, _) in pairwise(pieces):
        at += stop - start
        common[at] = shared[stop : following + 1].min()
    common[0] = 0
    return Pack(places, common, int((lengths[places] - common).sum()))
