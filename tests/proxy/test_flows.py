"""Waiting for calls in flight."""

from __future__ import annotations

import asyncio

from mitmproxy import connection

from stepwell.proxy._flows import Call, Flows


def _client() -> connection.Client:
    return connection.Client(peername=("127.0.0.1", 1), sockname=("127.0.0.1", 2))


async def test_idle_waits_for_the_calls_of_one_trajectory() -> None:
    flows = Flows()
    client = _client()
    for id, trajectory in (("a", "one"), ("b", "one"), ("c", "two")):
        flows.add(Call(id, client, "", trajectory_id=trajectory))
    waiting = asyncio.create_task(flows.idle(30, "one"))
    all_of_them = asyncio.create_task(flows.idle(30))
    await asyncio.sleep(0)
    flows.pop("a")
    await asyncio.sleep(0)
    assert not waiting.done()
    flows.pop("b")
    assert await waiting
    assert not all_of_them.done()
    flows.pop("c")
    assert await all_of_them
    assert await flows.idle(0)


async def test_idle_gives_up() -> None:
    flows = Flows()
    flows.add(Call("a", _client(), "", trajectory_id="one"))
    assert not await flows.idle(0.01)
    assert not await flows.idle(0.01, "one")
    assert await flows.idle(0.01, "another")


def test_a_call_is_ended_once() -> None:
    flows = Flows()
    first, second = _client(), _client()
    flows.add(Call("a", first, ""))
    flows.add(Call("b", second, ""))
    assert [call.id for call in flows.of(first)] == ["a"]
    assert flows.pop("a") is not None
    assert flows.pop("a") is None
    assert len(flows) == 1
