from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from stepwell import sdk
from stepwell.errors import StepwellError

TOKENS: dict[str, Any] = {"prompt_ids": [1, 2], "response_ids": [3]}


def test_a_block_opens_names_and_completes(gateway: Any, client: sdk.Client) -> None:
    with client.trajectory("t", prompt="p", group="g", split="eval", policy_version=7, metadata={"a": 1}) as t:
        assert sdk.current_trajectory() is t
        step = client.submit_step(**TOKENS)
        client.submit_feedback(step=step, label="fine")
        t.submit_step(**TOKENS, group="other")
        t.reward(1.0, name="unit_tests")
        t.label("solved")
    assert sdk.current_trajectory() is None
    assert client.flush().acknowledged == 7
    first, last = gateway.bodies("trajectory")
    shared = {"trajectory_id": "t", "prompt_id": "p", "group_id": "g", "split": "eval", "policy_version": 7}
    assert first.items() >= {**shared, "state": "open"}.items() and "marks" not in first
    assert last.items() >= {**shared, "state": "completed"}.items() and "reason" not in last
    assert last["marks"] == {gateway.spool.producer: 6}  # everything before it
    one, other = gateway.bodies("step")
    assert one.items() >= shared.items() and other["group_id"] == "other"
    label, reward, solved = gateway.bodies("feedback")
    assert label["step_id"] == step and "trajectory_id" not in label
    assert (reward["trajectory_id"], reward["reward"], reward["name"]) == ("t", 1.0, "unit_tests")
    assert (solved["trajectory_id"], solved["label"]) == ("t", "solved")


def test_an_exception_fails_it_and_goes_on(gateway: Any, client: sdk.Client) -> None:
    with pytest.raises(ZeroDivisionError), client.trajectory():
        raise ZeroDivisionError
    with client.trajectory() as t:
        t.fail("gave up")
    client.flush()
    ends = [body for body in gateway.bodies("trajectory") if body["state"] != "open"]
    assert [(end["state"], end["reason"]) for end in ends] == [("failed", "ZeroDivisionError"), ("failed", "gave up")]


def test_blocks_nest(client: sdk.Client) -> None:
    with client.trajectory("outer") as outer:
        with client.trajectory("inner"):
            assert sdk.current_trajectory() is not outer
        assert sdk.current_trajectory() is outer


def test_a_handle_names_its_own_trajectory_wherever_it_is_used(gateway: Any, client: sdk.Client) -> None:
    with client.trajectory("outer", group="g") as outer, client.trajectory("inner"):
        outer.submit_step(**TOKENS)
        outer.reward(1)
        client.submit_step(**TOKENS, trajectory=outer)
        threading.Thread(target=lambda: outer.submit_step(**TOKENS)).start()
    client.flush()
    assert {body["trajectory_id"] for body in gateway.bodies("step")} == {"outer"}
    assert [body["trajectory_id"] for body in gateway.bodies("feedback")] == ["outer"]


async def test_tasks_do_not_see_each_others_blocks(gateway: Any, client: sdk.Client) -> None:
    async def rollout(name: str) -> None:
        async with client.trajectory(name) as t:
            await asyncio.sleep(0)

            async def call() -> None:
                await asyncio.sleep(0)
                await client.asubmit_step(**TOKENS, metadata={"name": name})

            await asyncio.gather(call(), call())
            assert sdk.current_trajectory() is t

    await asyncio.gather(*(rollout(f"t{number}") for number in range(20)))
    await client.aflush()
    steps = gateway.bodies("step")
    assert len(steps) == 40 and all(step["trajectory_id"] == step["metadata"]["name"] for step in steps)


async def test_an_async_block_fails_by_exception(gateway: Any, client: sdk.Client) -> None:
    with pytest.raises(asyncio.CancelledError):
        async with client.trajectory("t"):
            raise asyncio.CancelledError
    await client.aflush()
    assert gateway.bodies("trajectory")[-1]["reason"] == "CancelledError"


def test_a_handle_is_for_one_rollout(client: sdk.Client) -> None:
    with client.trajectory() as t:
        pass
    with pytest.raises(StepwellError, match="entered before"):
        t.__enter__()
    assert sdk.current_trajectory() is None


def test_ids_are_fresh_unless_given(client: sdk.Client) -> None:
    assert client.trajectory().id != client.trajectory().id
    assert client.trajectory("t").id == client.trajectory("t").trajectory_id == "t"


def test_a_bound_function_finds_the_block_in_any_thread(gateway: Any, client: sdk.Client) -> None:
    def call(number: int) -> str:
        return client.submit_step(**TOKENS, step=f"s{number}")

    with client.trajectory("t") as t, ThreadPoolExecutor(4) as pool:
        bound = t.bind(call)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(bound, range(8))) == [f"s{number}" for number in range(8)]
        pool.submit(call, 8).result()
    assert sdk.current_trajectory() is None
    client.flush()
    found = {step["step_id"]: step.get("trajectory_id") for step in gateway.bodies("step")}
    assert found == {**{f"s{number}": "t" for number in range(8)}, "s8": None}


async def test_a_bound_coroutine_function_and_asyncios_threads(gateway: Any, client: sdk.Client) -> None:
    async def call() -> str:
        await asyncio.sleep(0)
        return await client.asubmit_step(**TOKENS)

    async with client.trajectory("t") as t:
        await asyncio.to_thread(client.submit_step, **TOKENS)
    await t.bind(call)()
    assert sdk.current_trajectory() is None
    await client.aflush()
    assert [step["trajectory_id"] for step in gateway.bodies("step")] == ["t", "t"]
