"""Which trajectory a call belongs to: credentials in the proxy URL, or what it continues."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI

from stepwell.proxy import CONTROL_HOST
from stepwell.testing import ChatCall, Delivery, Reply

from .conftest import ENGINE, Site, assert_same, say

PARALLEL, TRAJECTORIES = 20, 4


def echo(call: ChatCall) -> Reply:
    """An answer that names its question, delivered in parts so that parallel calls really overlap."""
    return Reply(content=f"Antwort auf {call.messages[-1]['content']} 👋", delivery=Delivery(delay_ms=2))


def check_apart(site: Site, asked: dict[str, list[str]]) -> None:
    """Each trajectory has its own questions' steps, and those equal what the server sampled."""
    logged = {call.messages[-1]["content"]: call for call in site.calls}
    assert len(logged) == len(site.calls) == sum(map(len, asked.values()))
    for trajectory, questions in asked.items():
        rows = {row["response_id"]: row for row in site.rows(len(questions), trajectory)}
        for question in questions:
            assert_same(rows[logged[question].call_id], logged[question])


def test_parallel_calls_of_several_trajectories_stay_apart(over: Site) -> None:
    """One client and connection pool per trajectory; over HTTP/2 five streams share each connection."""
    over.script(echo)
    clients = [over.openai(f"{over.name}/ä {number}") for number in range(TRAJECTORIES)]

    def ask(number: int) -> None:
        stream: Any = clients[number % TRAJECTORIES].chat.completions.create(
            model="m", messages=say(f"{over.name} {number}"), stream=number % 3 > 0
        )
        if number % 3:
            for _ in stream:
                pass

    with ThreadPoolExecutor(PARALLEL) as pool:
        list(pool.map(ask, range(PARALLEL)))
    asked = {
        f"{over.name}/ä {place}": [f"{over.name} {number}" for number in range(place, PARALLEL, TRAJECTORIES)]
        for place in range(TRAJECTORIES)
    }
    check_apart(over, asked)


async def test_parallel_calls_on_one_connection_pool(over: Site) -> None:
    over.script(echo)

    async def ask(client: AsyncOpenAI, number: int) -> None:
        stream: Any = await client.chat.completions.create(
            model="m", messages=say(f"{over.name} {number}"), stream=True
        )
        async for _ in stream:
            pass

    async with over.async_openai(over.name) as client:
        await asyncio.gather(*(ask(client, number) for number in range(PARALLEL)))
    check_apart(over, {over.name: [f"{over.name} {number}" for number in range(PARALLEL)]})


def test_anonymous_agents_are_told_apart_by_what_they_continue(over: Site) -> None:
    """Two conversations, turn by turn in alternation, without any credentials: two inferred trajectories."""
    over.script(lambda call: Reply(content=f"{call.messages[0]['content']}, Zug {call.turn}"))
    client = over.openai(None)
    talks = {name: say(f"{over.name} {name}") for name in ("weiß", "schwarz")}
    for _ in range(3):
        for messages in talks.values():
            answer = client.chat.completions.create(model="m", messages=messages)
            messages.append({"role": "assistant", "content": answer.choices[0].message.content})
            messages.append({"role": "user", "content": "weiter"})
    over.world.settle()
    ids = json.dumps([call.call_id for call in over.calls]).replace('"', "'")[1:-1]
    rows = over.world.warehouse.steps(f"response_id IN ({ids})").read_all().to_pylist()
    assert len(rows) == 6
    by_talk: dict[str, list[Any]] = {name: [] for name in talks}
    logged = {call.call_id: call for call in over.calls}
    for row in sorted(rows, key=lambda row: row["turn"]):
        call = logged[row["response_id"]]
        assert_same(row, call)
        by_talk[call.messages[0]["content"].rpartition(" ")[2]].append(row)
    for turns in by_talk.values():
        assert [row["turn"] for row in turns] == [0, 1, 2]
        assert [row["parent_id"] for row in turns] == [None, turns[0]["step_id"], turns[1]["step_id"]]
        assert len({row["trajectory_id"] for row in turns}) == 1
        assert turns[0]["trajectory_id"].startswith("auto-")
    assert len({row["trajectory_id"] for row in rows}) == 2


@pytest.mark.parametrize("credentials", ["", "t:wrong@"])
def test_the_run_port_wants_credentials_and_says_so(site: Site, credentials: str) -> None:
    url = f"http://{credentials}127.0.0.1:{site.world.ports['run_port']}"
    with (
        httpx2.Client(proxy=url, verify=site.world.trust(), trust_env=False) as client,
        pytest.raises(httpx2.ProxyError, match="407"),
    ):
        client.post(f"{ENGINE}/chat/completions", json={"messages": say("hi")})
    with httpx2.Client(proxy=url, trust_env=False) as client:
        refused = client.get(f"http://{CONTROL_HOST}/health")
    assert refused.status_code == 407
    assert "stepwell run --" in refused.text
    assert str(site.world.ports["port"]) in refused.text
    assert site.calls == []


def test_a_trajectory_ends_after_its_last_call(site: Site) -> None:
    """Opened and ended as `stepwell run` does it; complete once every call that it made is committed."""
    site.script(Reply(content="x"))
    client = site.http(site.name)
    trajectory = {"trajectory_id": site.name, "prompt_id": "p", "group_id": "g", "split": "eval"}
    assert client.post(f"http://{CONTROL_HOST}/trajectories", json=trajectory).status_code == 200
    site.openai(site.name).chat.completions.create(model="m", messages=say("hi"))
    ended = client.post(f"http://{CONTROL_HOST}/trajectories/end", json=trajectory | {"state": "completed"})
    assert ended.status_code == 200
    assert ended.json()["in_flight"] == 0
    (row,) = site.rows(1)
    assert (row["prompt_id"], row["group_id"], row["split"]) == ("p", "g", "eval")
    (seen,) = site.world.warehouse.query(
        f"SELECT state, steps, split FROM trajectories WHERE trajectory_id = '{site.name}'"
    ).to_pylist()
    assert seen == {"state": "completed", "steps": 1, "split": "eval"}
