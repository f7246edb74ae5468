"""`stepwell up` for real: an unmodified agent, the SDK, a query, an orderly end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys

import httpx2
import psutil  # type: ignore[import-untyped]
import pytest

from stepwell.testing import DEMO_TASKS, demo_script

from .conftest import AGENT, DEADLINE, PROCESSES, Installation, eventually

SUBMIT = """
from stepwell import sdk
step = sdk.submit_step(step_id="sdk-1", trajectory="by-sdk", prompt_ids=[1, 2], response_ids=[3, 4], logprobs=[-0.5, -0.25],
                       policy_version=7, messages=[{"role": "user", "content": "grüß dich 👋"}], response="servus")
sdk.submit_feedback(step=step, reward=0.5, name="taste")
sdk.submit_feedback(trajectory="agent/1", reward=1.0)
done = sdk.flush(timeout=90, committed=True)
print(done.acknowledged, done.unacknowledged, done.refused, done.committed)
"""


def test_the_stack_from_start_to_end(installation: Installation) -> None:
    installation.server.app.script = demo_script
    up = installation.up()
    assert httpx2.get(f"{installation.gateway}/api/v1/health", trust_env=False).json()["status"] == "ok"
    pids = {name: child.pid for name, child in up.children().items()}
    assert set(pids) == set(PROCESSES)

    run_the_agent(installation)
    submit_with_the_sdk(installation)
    check_what_is_stored(installation)

    assert up.stop(signal.SIGTERM) == 0
    assert not [name for name, pid in pids.items() if psutil.pid_exists(pid)]
    for port in (installation.proxy_port, installation.run_port, installation.gateway_port):
        socket.create_server(("127.0.0.1", port)).close()
    check_what_is_stored(installation)  # the warehouse needs no process


def run_the_agent(installation: Installation) -> None:
    options = ["--trajectory", "agent/1", "--prompt", DEMO_TASKS[0].prompt_id, "--group", "g1", "--meta", "seed=0"]
    ran = installation.stepwell("run", *options, "--", sys.executable, str(AGENT), "--task", "0", "--seed", "0")
    assert (ran.returncode, ran.stderr) == (0, "")
    answer = json.loads(ran.stdout)
    assert answer["answer"] == DEMO_TASKS[0].answer
    assert answer["turns"] == len(installation.server.calls) >= 3


def submit_with_the_sdk(installation: Installation) -> None:
    submitted = subprocess.run(
        [sys.executable, "-c", SUBMIT],
        env=installation.environment,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert submitted.stdout.split() == ["3", "0", "0", "True"], submitted.stderr


def check_what_is_stored(installation: Installation) -> None:
    logged = {call.call_id: call for call in installation.server.calls}
    columns = (
        "step_id, response_id, prompt_ids, response_ids, logprobs, status, trainable, turn, group_id, trajectory_reward"
    )
    rows = installation.query(f"select {columns} from steps where trajectory_id = 'agent/1' order by turn")
    assert [row["turn"] for row in rows] == list(range(len(logged)))
    assert {row["response_id"] for row in rows} == logged.keys()
    for row in rows:
        call = logged[row["response_id"]]
        assert row["prompt_ids"] == call.prompt_ids
        assert row["response_ids"] == call.choices[0].response_ids
        assert row["logprobs"] == pytest.approx(call.choices[0].logprobs, rel=1e-6)
        assert (row["status"], row["trainable"], row["group_id"], row["trajectory_reward"]) == ("ok", True, "g1", 1.0)
    (trajectory,) = installation.query("select * from trajectories where trajectory_id = 'agent/1'")
    assert (trajectory["state"], trajectory["prompt_id"]) == ("completed", DEMO_TASKS[0].prompt_id)
    (step,) = installation.query(f"select {columns}, step_reward, messages from steps where step_id = 'sdk-1'")
    assert (step["prompt_ids"], step["response_ids"], step["step_reward"]) == ([1, 2], [3, 4], 0.5)
    assert "grüß dich 👋" in step["messages"]


def test_agents_calls_do_not_need_gateway_and_ingest(installation: Installation) -> None:
    """Both are killed again as often as they come back; the proxy answers, and what it captured arrives later."""
    up = installation.up()
    client = installation.openai("t1")
    client.chat.completions.create(model="m", messages=[{"role": "user", "content": "before"}])
    proxy = up.children()["proxy"].pid
    for number in range(3):
        for name in ("gateway", "ingest"):
            if name in up.children():
                up.kill(name)
        assert not installation.healthy()
        answer = client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": f"meanwhile {number}"}]
        )
        assert answer.choices[0].message.content == "unscripted"
    assert up.children()["proxy"].pid == proxy
    eventually(installation.healthy, "the gateway is back")
    installation.flush()
    rows = installation.query("select response_id, status from steps where trajectory_id = 't1'")
    assert {row["response_id"] for row in rows} == {call.call_id for call in installation.server.calls}
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert up.stop(signal.SIGINT) == 0
