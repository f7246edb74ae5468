"""Images whose placeholder ids are alike: no node of a tree is of two different ones, and nothing else changes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reader.test_modes import MODES, occurrences

from stepwell.reader import PrefixOrder, Sequences, TreeBatch, merge, prefix_order
from stepwell.reader._media import NO_HASH, NO_PLACES, NOT_TOLD, Media, keyed
from stepwell.reader._modes import arranged
from stepwell.reader._pack.packing import pack_forest

PAD = 9
SIZES = {"a": 1, "b": 1, "c": 2, "d": 2}
"""Ids that an engine makes of each image, all of them `PAD`."""
Item = int | str


@dataclass(frozen=True)
class Said:
    """Token ids and images, in their order; the response begins after `cut` of them."""

    items: tuple[Item, ...]
    cut: int
    told: str

    def ids(self, items: tuple[Item, ...]) -> list[int]:
        return [token for item in items for token in ([item] if isinstance(item, int) else [PAD] * SIZES[item])]

    @property
    def contents(self) -> list[Item]:
        """For each id, what it really stands for."""
        return [one for item in self.items for one in ([item] if isinstance(item, int) else [item] * SIZES[item])]

    @property
    def images(self) -> list[str]:
        return [item for item in self.items if isinstance(item, str)]

    @property
    def places(self) -> list[tuple[int, str]]:
        return [(place, one) for place, one in enumerate(self.contents) if isinstance(one, str)]


@st.composite
def _conversations(draw: st.DrawFn) -> list[Said]:
    """Most go on from an earlier one, cut anywhere; few ids and few images, so that much is alike."""
    rows: list[Said] = []
    count: int = draw(st.integers(2, 8))
    for _ in range(count):
        items: tuple[Item, ...] = ()
        if rows and draw(st.integers(0, 4)) > 0:
            base = draw(st.sampled_from(rows))
            kept: int = draw(st.integers(0, len(base.items)))
            items = base.items[:kept]
        items += tuple(draw(st.lists(st.sampled_from([1, 2, "a", "b", "c", "d"]), max_size=4)))
        items = items or (1,)
        told = draw(st.sampled_from(["list"] * 5 + ["places", "links"]))
        rows.append(Said(items, draw(st.integers(1, len(items))), told))
    return rows


def conversations() -> st.SearchStrategy[list[Said]]:
    return _conversations()


def sequences_of(rows: list[Said]) -> Sequences:
    prompts, responses = (
        [row.ids(row.items[: row.cut]) for row in rows],
        [row.ids(row.items[row.cut :]) for row in rows],
    )
    return Sequences.from_lists(prompts, responses, [[-0.5] * len(ids) for ids in responses])


def media_of(rows: list[Said]) -> Media:
    return Media(
        [[None if row.told == "links" else image for image in row.images] for row in rows],
        {place: row.places for place, row in enumerate(rows) if row.told == "places"},
    )


def check_nodes(rows: list[Said], order: PrefixOrder) -> None:
    """What a row shares with the one before it is what both really have, and of links nothing is taken for the same."""
    for place in range(1, len(order.order)):
        one, other = (rows[int(row)] for row in order.order[place - 1 : place + 1])
        shared = int(order.shared[place])
        assert one.contents[:shared] == other.contents[:shared]
        if "links" in (one.told, other.told):
            assert not any(isinstance(content, str) for content in other.contents[:shared])


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_no_node_is_of_two_images_and_all_ways_to_merge_train_the_same(data: st.DataObject) -> None:
    rows = data.draw(conversations())
    sequences = sequences_of(rows)
    compared = keyed(sequences, media_of(rows)).sequences
    whose = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows))), np.int64)
    budget = int(sequences.lengths.max()) + data.draw(st.integers(0, 20))
    terms = []
    for mode in MODES:
        order = arranged(compared, mode, whose)
        check_nodes(rows, order)
        packing = pack_forest(sequences.lengths[order.order], order.shared, budget=budget, ranks=2)
        parts = [PrefixOrder(order.order[pack.places], pack.shared) for packs in packing.ranks for pack in packs]
        for part in parts:
            check_nodes(rows, part)
        terms.append(occurrences([_merged(sequences, part) for part in parts]))
    assert terms[0] == terms[1] == terms[2]
    assert terms[0].total() == sequences.trained_total


def _merged(sequences: Sequences, prefixes: PrefixOrder) -> TreeBatch:
    credit = np.arange(len(sequences), dtype=np.float32)
    return merge(sequences, advantage=credit, weight=1 / (credit + 3), prefixes=prefixes)


@settings(deadline=None, max_examples=100)
@given(rows=conversations())
def test_places_that_are_known_are_all_it_takes(rows: list[Said]) -> None:
    """Then what is shared is all that is the same, neither more nor less."""
    sequences = sequences_of(rows)
    found = keyed(sequences, Media([None] * len(rows), {place: row.places for place, row in enumerate(rows)}))
    order = prefix_order(found.sequences)
    assert found.apart == {}
    for place in range(1, len(rows)):
        one, other = (rows[int(row)].contents for row in order.order[place - 1 : place + 1])
        same = [a == b for a, b in zip(one, other, strict=False)]
        assert order.shared[place] == (same.index(False) if False in same else len(same))


def tokens(rows: list[Said]) -> int:
    """Of the tree of all."""
    sequences = sequences_of(rows)
    compared = keyed(sequences, media_of(rows)).sequences
    return merge(sequences, prefixes=prefix_order(compared)).tokens_merged


def said(*items: Item, cut: int = 1, told: str = "list") -> Said:
    return Said(items, cut, told)


def test_a_trajectory_that_sees_an_image_each_turn_is_one_line() -> None:
    """Where in a turn its own image is, is not known; that of the turn before is in the turn before."""
    rows = [Said(tuple(item for n in range(turn + 1) for item in (1, "abcd"[n], 2)), 2, "list") for turn in range(4)]
    assert tokens(rows) == len(rows[-1].contents)


def test_rollouts_of_one_task_share_its_image_and_those_of_another_do_not() -> None:
    cat = [said(1, "a", 2, answer, cut=3) for answer in (3, 4, 5)]
    dog = [said(1, "b", 2, answer, cut=3) for answer in (3, 4)]
    assert tokens(cat) == 3 + 3
    assert tokens(cat + dog) == (3 + 3) + (3 + 2)
    for other in (6, 10):  # whose order is before and behind that of the placeholder
        both = tokens([*cat, *dog, said(1, other)])
        assert both == 1 + (2 + 3) + (2 + 2) + 1, "as far as a step without images goes, all share"


def test_what_was_kept_apart_is_told() -> None:
    rows = [said(1, "a", 2), said(1, "b", 2), said(1, "a", 2, 3, told="links"), said(1, 2), said(1, "c")]
    media = media_of(rows)
    assert keyed(sequences_of(rows), media).apart == {NO_PLACES: 3, NO_HASH: 1}
    unknown = Media([["a"], None], {})
    assert keyed(sequences_of(rows[:2]), unknown).apart == {NO_PLACES: 1, NOT_TOLD: 1}


def test_without_images_nothing_is_looked_at() -> None:
    sequences = sequences_of([said(1, 2), said(1, 3)])
    for media in (None, Media([None, []], {}), Media([[], []], {0: []})):
        assert keyed(sequences, media) == (sequences, {})


def test_steps_that_tell_nothing_share_among_themselves() -> None:
    rows = [said(1, 2, 3), said(1, 2, 4), said(1, "a", 5)]
    order = prefix_order(keyed(sequences_of(rows), Media([None, None, ["a"]], {})).sequences)
    assert sorted(order.shared.tolist()) == [0, 0, 2]


def test_keys_do_not_make_different_ids_alike() -> None:
    """One image in two prompts that begin differently."""
    assert tokens([said(1, "a"), said(2, "a")]) == 4
