"""Any tree of steps is stored as differences and comes back as it was."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.exchange.canonical import canonical_messages
from stepwell.sdk.records import Step
from stepwell.warehouse._content import hashes_of
from stepwell.warehouse._delta import MAX_DEPTH, common_prefix, restore_tokens
from stepwell.warehouse._whole import restore

Store = Callable[[list[Step]], pa.Table]


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@st.composite
def trees(draw: st.DrawFn) -> list[Step]:
    """Steps grown from earlier ones cut anywhere: branches, drift, duplicates, strict prefixes; with tokens, text, or both."""
    steps: list[Step] = []
    tokens = st.lists(st.integers(0, 2), max_size=5).map(lambda head: head * 8)
    says = st.sampled_from(["a", "b", "", "ü", 'q"\\'])
    count: int = draw(st.integers(1, 10))
    for number in range(count):
        ids: list[int] = []
        said: list[dict[str, Any]] = []
        if number and draw(st.integers(0, 4)):
            base = draw(st.sampled_from(steps))
            whole = [*(base.prompt_ids or ()), *(base.response_ids or ())]
            ids = whole[: draw(st.integers(0, len(whole)))]
            talk = [*(base.messages or ()), *([base.response] if base.response else ())]
            said = talk[: draw(st.integers(0, len(talk)))]
        ids = [*ids, *draw(tokens)] or [1]
        said = [*said, {"role": "user", "content": draw(says)}]
        kind = draw(st.sampled_from(["both", "both", "tokens", "text"]))
        cut = draw(st.integers(1, len(ids)))
        fields: dict[str, Any] = {"tools": draw(st.sampled_from([None, [], [{"name": "t"}], [{"name": "u"}]]))}
        if kind != "text":
            fields |= {"prompt_ids": ids[:cut], "response_ids": ids[cut:]}
            fields |= {"logprobs": [-0.5] * (len(ids) - cut)} if draw(st.booleans()) else {}
        if kind != "tokens":
            fields |= {"messages": said, "response": {"role": "assistant", "content": draw(says)}}
        steps.append(Step(step_id=str(number), trajectory_id=draw(st.sampled_from(["s", "t"])), **fields))
    return steps


@settings(max_examples=150, deadline=None)
@given(steps=trees(), order=st.randoms(use_true_random=False))
def test_any_tree_in_any_order_reads_back_equal(linked: Store, steps: list[Step], order: random.Random) -> None:
    order.shuffle(steps)
    rows = linked(steps)
    depths = rows["base_depth"].to_numpy()
    assert depths.max() < MAX_DEPTH
    whole = restore(rows)
    for step, row in zip(steps, whole.to_pylist(), strict=True):
        assert row["prompt_ids"] == (None if step.prompt_ids is None else list(step.prompt_ids))
        assert row["response_ids"] == (None if step.response_ids is None else list(step.response_ids))
        assert row["logprobs"] == (None if step.logprobs is None else list(step.logprobs))
        said = None if step.messages is None else canonical_messages(step.messages)
        assert (None if row["messages"] is None else orjson.loads(row["messages"])) == said
        assert (None if row["tools"] is None else orjson.loads(row["tools"])) == step.tools
    assert hashes_of(whole) == rows["content_hash"].to_pylist()


def turns(count: int, per_turn: int = 40) -> list[Step]:
    """A conversation that only ever grows."""
    rng = np.random.default_rng(0)
    prompt, said, steps = rng.integers(0, 1000, 100).tolist(), [{"role": "user", "content": "q0"}], []
    for turn in range(count):
        response = rng.integers(0, 1000, per_turn).tolist()
        steps.append(
            Step(
                step_id=f"{turn:04}",
                trajectory_id="t",
                prompt_ids=prompt,
                response_ids=response,
                messages=said,
                response=says(f"a{turn}"),
                tools=[{"name": "calc"}],
            )
        )
        prompt = [*prompt, *response, turn]
        said = [*said, {"role": "assistant", "content": f"a{turn}"}, {"role": "user", "content": f"q{turn + 1}"}]
    return steps


def test_a_growing_conversation_is_stored_once(linked: Store) -> None:
    rows = linked(turns(MAX_DEPTH))
    suffixes = [len(suffix) for suffix in rows["prompt_suffix"].to_pylist()]
    assert suffixes == [100, *[1] * (MAX_DEPTH - 1)], "the response before it is not stored a second time"
    messages = [len(orjson.loads(suffix)) for suffix in rows["messages_suffix"].to_pylist()]
    assert messages == [1] * MAX_DEPTH
    assert rows["tools"].null_count == MAX_DEPTH - 1


def test_a_long_conversation_has_key_frames(linked: Store) -> None:
    steps = turns(3 * MAX_DEPTH)
    rows = linked(steps)
    assert rows["base_depth"].to_numpy().max() == MAX_DEPTH - 1
    stored = sum(len(suffix) for suffix in rows["prompt_suffix"].to_pylist())
    whole = sum(len(step.prompt_ids or ()) for step in steps)
    assert stored < whole / 20
    assert restore(rows)["prompt_ids"].to_pylist() == [step.prompt_ids for step in steps]


def test_the_base_is_the_step_that_shares_most_not_the_parent(linked: Store) -> None:
    first = turns(3)
    retold = [*(first[2].prompt_ids or ()), *(first[2].response_ids or ())[:5], 5000, 5001]
    branch = Step(
        step_id="x",
        trajectory_id="t",
        parent_id="0000",
        prompt_ids=retold,
        response_ids=[1],
        messages=[{"role": "user", "content": "other"}],
        response=says("a"),
    )
    row = linked([*first, branch]).to_pylist()[3]
    assert (row["parent_id"], row["base_id"]) == ("0000", "0002")
    assert row["prompt_suffix"] == [5000, 5001]
    assert row["messages_shared"] == 0


def test_little_in_common_is_not_followed(linked: Store) -> None:
    steps = [
        Step(step_id=str(n), trajectory_id="t", prompt_ids=[*range(15), 100 + n], response_ids=[n]) for n in range(2)
    ]
    assert linked(steps)["base_id"].to_pylist() == [None, None]


def test_trajectories_never_refer_to_each_other(linked: Store) -> None:
    same = turns(1)[0]
    other = same.model_copy(update={"trajectory_id": "u", "step_id": "other"})
    assert linked([same, other])["base_id"].to_pylist() == [None, None]


@given(st.lists(st.integers(0, 1), max_size=40), st.lists(st.integers(0, 1), max_size=40), st.integers(0, 3000))
def test_common_prefix(left: list[int], right: list[int], same: int) -> None:
    """Also across the borders of the pieces it compares."""
    ours, theirs = ([7] * same + tail for tail in (left, right))
    expected = same
    while expected < min(len(ours), len(theirs)) and ours[expected] == theirs[expected]:
        expected += 1
    assert common_prefix(np.array(ours, np.int32), np.array(theirs, np.int32)) == expected


def test_a_base_that_is_too_short_does_not_fit() -> None:
    suffix, base = np.array([9], np.int32), np.array([1, 2], np.int32)
    assert restore_tokens(2, suffix, base).tolist() == [1, 2, 9]
    for unfit in (None, base[:1]):
        with pytest.raises(ValueError, match="fewer tokens"):
            restore_tokens(2, suffix, unfit)
