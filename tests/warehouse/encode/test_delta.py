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
from stepwell.warehouse._encode import delta as delta_module
from stepwell.warehouse._encode.content import hashes_of
from stepwell.warehouse._encode.delta import MAX_DEPTH
from stepwell.warehouse._encode.payloads import PayloadMemory
from stepwell.warehouse._ingest.rows import payload_rows, step_rows
from stepwell.warehouse._link.link import Linked
from stepwell.warehouse._restore.whole import restore

Store = Callable[[list[Step]], pa.Table]
Place = Callable[[list[Step]], list[Linked]]
LARGE = "long " * 500


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


@st.composite
def trees(draw: st.DrawFn) -> list[Step]:
    """Steps grown from earlier ones cut anywhere: branches, drift, duplicates, strict prefixes; with tokens, text, or both."""
    steps: list[Step] = []
    tokens = st.lists(st.integers(0, 2), max_size=5).map(lambda head: head * 8)
    says = st.sampled_from(["a", "b", "", "ü", 'q"\\', LARGE, LARGE + "\u2028"])
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
            if draw(st.booleans()):  # drifted: something else in front, the middle left out
                ids = [*draw(tokens), *ids, *whole[draw(st.integers(0, len(whole))) :]]
                said = [{"role": "system", "content": draw(says)}, *said, *talk[draw(st.integers(0, len(talk))) :]]
        ids = [*ids, *draw(tokens)] or [1]
        said = [*said, {"role": "user", "content": draw(says)}]
        kind = draw(st.sampled_from(["both", "both", "tokens", "text"]))
        cut = draw(st.integers(1, len(ids)))
        fields: dict[str, Any] = {"tools": draw(st.sampled_from([None, [], [{"name": "t"}], [{"name": LARGE}]]))}
        if kind != "text":
            fields |= {"prompt_ids": ids[:cut], "response_ids": ids[cut:]}
            fields |= {"logprobs": [-0.5] * (len(ids) - cut)} if draw(st.booleans()) else {}
        if kind != "tokens":
            fields |= {"messages": said, "response": {"role": "assistant", "content": draw(says)}}
        steps.append(Step(step_id=str(number), trajectory_id=draw(st.sampled_from(["s", "t"])), **fields))
    return steps


@settings(max_examples=60, deadline=None)
@given(steps=trees(), order=st.randoms(use_true_random=False))
def test_any_tree_in_any_order_reads_back_equal(placed: Place, steps: list[Step], order: random.Random) -> None:
    order.shuffle(steps)
    made = placed(steps)
    rows, payloads = step_rows(made), payload_rows(made, PayloadMemory())
    apart = dict(zip(payloads["payload_id"].to_pylist(), payloads["data"].to_pylist(), strict=True))
    assert set(apart) == {id_ for ids in rows["payload_ids"].to_pylist() for id_ in ids or ()}
    shuffled = order.sample(range(rows.num_rows), rows.num_rows)
    whole = restore(rows.take(pa.array(shuffled)), payloads=lambda _: apart).take(pa.array(np.argsort(shuffled)))
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
    rows = linked(turns(64))
    suffixes = [len(suffix) for suffix in rows["prompt_suffix"].to_pylist()]
    assert suffixes == [100, *[1] * 63], "the response before it is not stored a second time"
    messages = [len(orjson.loads(suffix)) for suffix in rows["messages_suffix"].to_pylist()]
    assert messages == [1] * 64
    assert rows["tools"].null_count == 63


def test_a_long_conversation_has_key_frames(linked: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_DEPTH <= 1024
    monkeypatch.setattr(delta_module, "MAX_DEPTH", 8)
    steps = turns(60)
    rows = linked(steps)
    depths = rows["base_depth"].to_pylist()
    assert max(depths) == 7
    assert depths.count(0) == rows["base_id"].null_count == 3, (
        "the step before the deepest ones serves while it is recent"
    )
    assert restore(rows)["prompt_ids"].to_pylist() == [step.prompt_ids for step in steps]


def drifting(count: int, how: str) -> list[Step]:
    """A conversation of which something is different in every turn, while what was said stays."""
    rng = np.random.default_rng(1)
    prompt, said, steps = rng.integers(0, 1000, 200).tolist(), [{"role": "user", "content": "q"}], []
    for turn in range(count):
        response = rng.integers(0, 1000, 60).tolist()
        step = Step(step_id=f"{turn:04}", trajectory_id="t", prompt_ids=prompt, response_ids=response, messages=said)
        steps.append(step.model_copy(update={"response": {"role": "assistant", "content": f"a{turn}"}}))
        before = list(prompt)
        if how != "retokenised":
            before[{"at the front": 2}.get(how, int(rng.integers(0, len(before))))] = 5000 + turn
        again = response if how != "retokenised" else [*response[:20], 7000, *response[23:]]
        prompt = [*before, *again, *rng.integers(0, 1000, 40).tolist()]
        first = {"role": "user", "content": f"q at {turn}" if how == "at the front" else "q"}
        answer = {"role": "assistant", "content": f"a{turn}"}
        said = [first, *said[1:], answer, {"role": "user", "content": f"q{turn}"}]
    return steps


@pytest.mark.parametrize("how", ["at the front", "anywhere", "retokenised"])
def test_a_turn_that_drifts_costs_what_differs(linked: Store, how: str) -> None:
    """Ten times longer costs ten times more, in ids, operations and messages."""
    costs = []
    for count in (20, 200):
        steps = drifting(count, how)
        rows = linked(steps)
        assert rows["base_id"].null_count == 1
        assert restore(rows)["prompt_ids"].to_pylist()[-1] == steps[-1].prompt_ids
        numbers = [sum(map(len, rows[name].to_pylist())) for name in ("prompt_suffix", "prompt_ops", "messages_ops")]
        costs.append([*numbers, sum(map(len, rows["messages_suffix"].to_pylist()))])
        assert max(len(suffix) for suffix in rows["prompt_suffix"].to_pylist()[1:]) <= 200
    assert all(long <= 12 * short for short, long in zip(*costs, strict=True)), costs


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
    assert row["messages_ops"] == []


def test_an_older_base_of_which_it_has_more_is_taken_before_the_newest(linked: Store) -> None:
    steps = [
        Step(step_id="long", trajectory_id="t", prompt_ids=list(range(90)), response_ids=list(range(90, 100))),
        Step(step_id="short", trajectory_id="t", prompt_ids=list(range(30)), response_ids=list(range(30, 40))),
        Step(step_id="next", trajectory_id="t", prompt_ids=list(range(120)), response_ids=[1]),
    ]
    rows = linked(steps)
    assert rows["base_id"].to_pylist()[-1] == "long"
    assert rows["prompt_suffix"].to_pylist()[-1] == list(range(100, 120))


def test_little_in_common_is_not_followed(linked: Store) -> None:
    steps = [
        Step(step_id=str(n), trajectory_id="t", prompt_ids=[*range(15), 100 + n], response_ids=[n]) for n in range(2)
    ]
    assert linked(steps)["base_id"].to_pylist() == [None, None]


def test_trajectories_never_refer_to_each_other(linked: Store) -> None:
    same = turns(1)[0]
    other = same.model_copy(update={"trajectory_id": "u", "step_id": "other"})
    assert linked([same, other])["base_id"].to_pylist() == [None, None]


def test_a_changed_system_prompt_costs_itself(linked: Store) -> None:
    """Text only: nothing at the beginning is equal, and the parent has the rest."""
    said: list[dict[str, Any]] = [{"role": "system", "content": "0"}]
    steps = []
    for turn in range(20):
        said = [{"role": "system", "content": f"it is {turn}"}, *said[1:], {"role": "user", "content": f"q{turn}"}]
        answer = {"role": "assistant", "content": f"a{turn}"}
        steps.append(Step(step_id=str(turn), trajectory_id="t", messages=said, response=answer))
        said = [*said, answer]
    rows = linked(steps)
    assert [len(orjson.loads(own)) for own in rows["messages_suffix"].to_pylist()] == [2] * 20
    assert [orjson.loads(text)[0]["content"][0]["text"] for text in restore(rows)["messages"].to_pylist()] == [
        f"it is {turn}" for turn in range(20)
    ]


def test_the_base_is_the_one_that_leaves_least(linked: Store) -> None:
    """Two branches with nothing in common at the beginning: the drifted step is a difference to its own, not to the newest."""
    rng = np.random.default_rng(2)
    one, two = rng.integers(0, 1000, 300).tolist(), rng.integers(2000, 3000, 300).tolist()
    ids = {"one": one, "two": two, "three": [9, *one[1:], 7]}
    steps = [
        Step(
            step_id=name,
            trajectory_id="t",
            parent_id="one" if name == "three" else None,
            prompt_ids=ids[name],
            response_ids=[1],
        )
        for name in ids
    ]
    row = linked(steps).to_pylist()[2]
    assert (row["base_id"], row["prompt_suffix"]) == ("one", [9, 7])


def test_a_step_is_never_a_difference_to_itself(placed: Place) -> None:
    """When a flush is made again, memory may have what is stored of it."""
    [step] = turns(1)
    assert [item.delta.base_id for item in placed([step, step])] == [None, None]
