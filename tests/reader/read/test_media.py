"""Steps of an engine with images in their messages: their ids are alike, and what they show is not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.reader.read.test_reader import sequences, terms

from stepwell.reader import BatchReader, TreeBatches, read_groups
from stepwell.reader._media import NO_HASH, NO_PLACES, NOT_TOLD

PAD = 9


def image(digest: str | None) -> dict[str, Any]:
    part: dict[str, Any] = {"type": "image"} if digest is None else {"type": "image", "hash": digest}
    return {"role": "user", "content": [{"type": "text", "text": "see"}, part]}


ANSWER = {"role": "assistant", "content": [{"type": "text", "text": "said"}]}


def rollout(told: Any, name: str, group: str, *digests: str | None, answer: int = 5) -> None:
    """A turn for each image, whose placeholder is always the same id."""
    told.trajectory(name, group)
    ids: list[int] = []
    messages: list[Any] = []
    for turn, digest in enumerate(digests):
        ids, messages = [*ids, 1, PAD, PAD, 2], [*messages, image(digest)]
        told.step(name, turn, ids, [answer + turn], messages=messages)
        ids, messages = [*ids, answer + turn], [*messages, ANSWER]
    told.reward(name, float(answer))
    told.trajectory(name, group, state="completed")


def shared_by(batch: TreeBatches) -> set[frozenset[str]]:
    """The steps behind each packed placeholder."""
    names = dict(zip(batch.steps["step_index"].to_pylist(), batch.steps["step_id"].to_pylist(), strict=True))
    found = set()
    for pack in batch:
        at: dict[int, set[str]] = {}
        for row, index in enumerate(pack.step_index.tolist()):
            for start, stop in pack.tree.path(int(pack.tree.last[row])):
                for place in range(start, stop):
                    if pack.input_ids[place] == PAD:
                        at.setdefault(place, set()).add(names[index])
        found |= {frozenset(steps) for steps in at.values()}
    return found


def test_a_node_is_of_one_image(told: Any) -> None:
    rollout(told, "a1", "a", "sha256:cat", answer=5)
    rollout(told, "a2", "a", "sha256:cat", answer=6)
    rollout(told, "b1", "b", "sha256:dog", answer=5)
    rollout(told, "c1", "c", None, answer=5)
    rollout(told, "c2", "c", None, answer=6)
    warehouse = told.commit()
    (batch,) = BatchReader(warehouse, where="true")
    assert shared_by(batch) == {frozenset(some) for some in (("a1.0", "a2.0"), ("b1.0",), ("c1.0",), ("c2.0",))}
    assert batch.apart == {NO_PLACES: 3, NO_HASH: 2}
    assert len({tuple(ids[:4]) for ids in sequences(batch).values()}) == 1
    for merge in ("trajectory", "none"):
        (other,) = BatchReader(warehouse, where="true", merge=merge)
        assert terms(other) == terms(batch)


def test_turns_that_go_on_are_one_line(told: Any) -> None:
    rollout(told, "t", "g", "sha256:1", "sha256:2", "sha256:3")
    rollout(told, "u", "g", "sha256:1", "sha256:4", "sha256:3")
    for merge in ("tree", "trajectory"):
        (batch,) = BatchReader(told.commit(), where="true", merge=merge)
        lines = [{f"{name}.{turn}" for turn in range(first, 3)} for name in "tu" for first in range(3)]
        if merge == "tree":  # both begin with the same image
            lines = [line for line in lines if len(line) < 3] + [lines[0] | lines[3]]
        assert shared_by(batch) == {frozenset(line) for line in lines}


@pytest.mark.parametrize("merge", ["tree", "trajectory"])
def test_a_turn_that_shows_another_image_where_one_was_begins_anew(told: Any, merge: Any) -> None:
    told.trajectory("t", "g")
    told.step("t", 0, [1, PAD, 2], [5], messages=[image("sha256:1")])
    told.step("t", 1, [1, PAD, 2, 5, 3], [6], messages=[image("sha256:other"), ANSWER])
    told.step("t", 2, [1, PAD, 2, 5, 3, 6, 4], [7], messages=[image("sha256:other"), ANSWER, ANSWER])
    told.reward("t", 1.0)
    told.trajectory("t", "g", state="completed")
    (batch,) = BatchReader(told.commit(), where="true", merge=merge, advantage=None)
    assert shared_by(batch) == {frozenset(["t.0"]), frozenset(["t.1", "t.2"])}
    assert batch.apart[NO_PLACES] >= 1


def test_steps_without_messages_share_with_each_other_only(told: Any) -> None:
    told.trajectory("t", "g")
    for turn, messages in enumerate([None, None, [image("sha256:1")]]):
        more = {} if messages is None else {"messages": messages}
        told.step("t", turn, [1, PAD, 2], [5 + turn], parent_id=None, **more)
    warehouse = told.commit()
    (batch,) = BatchReader(warehouse, where="true", advantage=None)
    assert shared_by(batch) == {frozenset(["t.0", "t.1"]), frozenset(["t.2"])}
    assert batch.apart == {NO_PLACES: 1}
    (without,) = BatchReader(warehouse, where="step_id <> 't.2'", advantage=None)
    assert shared_by(without) == {frozenset(["t.0", "t.1"])} and without.apart == {}
    assert NOT_TOLD not in batch.apart, "they share with each other as much as with the third"


def test_nothing_is_asked_where_nothing_is_merged(told: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rollout(told, "t", "g", "sha256:1")
    warehouse, asked = told.commit(), list[str]()
    restored = warehouse.restored

    def noted(rows: Any, columns: Any) -> Any:
        asked.extend(columns)
        return restored(rows, columns)

    monkeypatch.setattr(warehouse, "restored", noted)
    list(BatchReader(warehouse, where="true", merge="none", advantage=None))
    assert "media" not in asked
    list(BatchReader(warehouse, where="true", merge="trajectory", advantage=None))
    assert "media" in asked


def test_groups_of_a_dataset_are_merged_by_content_too(told: Any) -> None:
    rollout(told, "a1", "a", "sha256:cat", "sha256:x", answer=5)
    rollout(told, "a2", "a", "sha256:dog", answer=6)
    rollout(told, "a3", "a", "sha256:cat", answer=7)
    warehouse = told.commit()
    warehouse.datasets.create("d", "true")
    ((batch, ids),) = [(group.batch, group.step_ids) for group in read_groups(warehouse, "d")]
    rows = [ids[index] for index in batch.step_index.tolist()]
    ways = {
        name: [place for start, stop in batch.tree.path(int(batch.tree.last[row])) for place in range(start, stop)]
        for row, name in enumerate(rows)
    }
    shared = {
        (one, other): len(set(ways[one]) & set(ways[other]))
        for one, other in pairwise(["a1.1", "a1.0", "a2.0", "a3.0"])
    }
    assert shared == {("a1.1", "a1.0"): 5, ("a1.0", "a2.0"): 0, ("a2.0", "a3.0"): 0}
    assert len(set(ways["a1.0"]) & set(ways["a3.0"])) == 4
