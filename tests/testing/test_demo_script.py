"""The demo's script played against the example agent's own tools, and the agent itself as a child process."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from openai import OpenAI

from stepwell.testing import DEMO_TASKS, ChatCall, DemoTask, LoggedCall, Reply, ScriptedServer, demo_script

AGENT = Path(__file__).parents[2] / "examples" / "unmodified_agent.py"


@pytest.fixture(scope="module")
def agent() -> ModuleType:
    spec = importlib.util.spec_from_file_location("unmodified_agent", AGENT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class Rollout:
    """One attempt at a task, as the agent saw it and as the server logged it."""

    task: DemoTask
    seed: int
    answer: str
    turns: int
    calls: list[LoggedCall]


def play(agent: ModuleType, server: ScriptedServer, task: DemoTask, seeds: Sequence[int]) -> list[Rollout]:
    rollouts = []
    with OpenAI(base_url=server.base_url, api_key="sk-test", max_retries=0) as client:
        for seed in seeds:
            first = len(server.calls)
            answer, turns = agent.solve(client, "m", task.question, seed)
            rollouts.append(Rollout(task, seed, answer, turns, server.calls[first:]))
    return rollouts


@pytest.fixture(scope="module")
def rollouts(agent: ModuleType) -> list[Rollout]:
    """Four attempts at each of the four tasks, with the agent's own code in this process."""
    with ScriptedServer(demo_script, tls=False) as server:
        return [rollout for task in DEMO_TASKS for rollout in play(agent, server, task, range(4))]


def test_tasks_of_script_and_agent_are_the_same(agent: ModuleType) -> None:
    assert [task.question for task in DEMO_TASKS] == agent.TASKS
    assert len({task.prompt_id for task in DEMO_TASKS}) == len(DEMO_TASKS) == 4


def test_rollouts_differ_and_one_in_four_is_wrong(rollouts: list[Rollout]) -> None:
    for task in DEMO_TASKS:
        assert [r.answer == task.answer for r in rollouts if r.task is task].count(False) == 1
    assert {rollout.turns for rollout in rollouts} == {3, 4, 5}
    assert all(len(rollout.calls) == rollout.turns for rollout in rollouts)
    calls = [call for rollout in rollouts for call in rollout.calls]
    assert {call.stream for call in calls} == {False, True}
    finals = [rollout.calls[-1].choices[0].text for rollout in rollouts]
    assert len(set(finals)) > len(finals) / 2
    spoken = "".join(choice.text for call in calls for choice in call.choices)
    assert any(ord(character) > 0xFFFF for character in spoken)


def test_prompts_of_a_rollout_are_exact_appends(rollouts: list[Rollout]) -> None:
    for rollout in rollouts:
        for before, after in pairwise(rollout.calls):
            so_far = before.prompt_ids + before.choices[0].response_ids
            assert after.prompt_ids[: len(so_far)] == so_far


def test_it_is_a_function_of_the_conversation_and_the_seed(
    serve: Callable[..., ScriptedServer], agent: ModuleType, rollouts: list[Rollout]
) -> None:
    (again,) = play(agent, serve(demo_script, tls=False), DEMO_TASKS[0], [2])
    (before,) = [rollout for rollout in rollouts if rollout.task is DEMO_TASKS[0] and rollout.seed == 2]
    assert [(call.prompt_ids, call.choices) for call in again.calls] == [
        (call.prompt_ids, call.choices) for call in before.calls
    ]


def test_a_stranger_s_question_is_declined() -> None:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "What is love?"}]}
    reply = demo_script(ChatCall(body["messages"], (), body, b"", 0, 0))
    assert isinstance(reply, Reply)
    assert reply.content is not None
    assert reply.content.endswith("Answer: unknown")


def test_the_agent_s_tools(agent: ModuleType) -> None:
    assert agent.calculator("(7 * 60 + 20 - 35) / 60 * 120") == "810"
    assert agent.calculator("1 / 3") == "0.3333333333"
    for wrong in ("(1", "1 / 0", "__import__('os')", "2 ** 9", "'a' + 'b'"):
        assert agent.calculator(wrong).startswith("error: ")
    assert agent.lookup("bus seats") == "49 seats"
    assert agent.lookup("nothing").startswith("error: ")
    assert 150 <= len(agent.SYSTEM.split()) <= 250


def test_the_agent_as_a_program_over_tls(serve: Callable[..., ScriptedServer], tmp_path: Path) -> None:
    server = serve(demo_script)
    environment = {
        **{name: value for name, value in os.environ.items() if "proxy" not in name.lower()},
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_API_KEY": "sk-test",
        "SSL_CERT_FILE": str(server.ca_file),
        "PYTHONUTF8": "1",
    }
    command = [sys.executable, "-W", "error", str(AGENT)]
    children = [
        subprocess.Popen(
            [*command, "--task", str(index), "--seed", "3"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for index in range(len(DEMO_TASKS))
    ]
    for index, (child, task) in enumerate(zip(children, DEMO_TASKS, strict=True)):
        output, errors = child.communicate(timeout=120)
        assert (child.returncode, errors) == (0, b"")
        printed = json.loads(output)
        right = (3 + index) % 4 != 1
        assert printed["task"] == index
        assert (printed["answer"] == task.answer) == right
        asked = [call for call in server.calls if task.question in str(call.messages[1]["content"])]
        assert len(asked) == printed["turns"] >= 3
    assert {dict(call.headers)["authorization"] for call in server.calls} == {"Bearer sk-test"}
