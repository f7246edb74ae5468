"""The examples of the SDK, run as programs against a real gateway."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conftest import Gateway

from stepwell.gateway import GatewayConfig
from stepwell.testing import ChatCall, Reply, ScriptedServer, ToolCall

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    return subprocess.run(
        command,
        input=stdin,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_loop_of_ones_own(gateway: Any, token: str) -> None:
    done = run("white_box_agent.py", "--games", "3", STEPWELL_URL=gateway.url, STEPWELL_TOKEN=token)
    assert (done.returncode, done.stderr) == (0, "")
    steps = gateway.bodies("step")
    assert json.loads(done.stdout) == {"steps": len(steps), "not yet acknowledged": 0, "on disk": 0}
    assert len({step["trajectory_id"] for step in steps}) == 3
    assert all(len(step["logprobs"]) == len(step["response_ids"]) and step["policy_version"] == 1 for step in steps)
    rewards = [said for said in gateway.bodies("feedback") if "reward" in said]
    assert len(rewards) == 3 and all(said["name"] == "game" for said in rewards)
    assert [said["state"] for said in gateway.bodies("trajectory")] == ["open", "completed"] * 3


def test_people_rate_compare_and_correct(gateway: Any, token: str) -> None:
    lines = [
        {"step": "a", "rating": 4, "scale": 5, "comment": "right, but long"},
        {"response_id": "chatcmpl-1", "thumb": "up"},
        {"chosen": "a", "rejected": "b"},
        {"step": "a", "correction": "It is 42."},
        {"trajectory": "t", "label": "off-topic"},
        {"step": "a", "rating": 6, "scale": 5},
        {"step": "a", "thumb": "sideways"},
    ]
    said = "\n".join(json.dumps(line) for line in lines) + "\nnot json\n"
    done = run("human_feedback.py", "--author", "ann", stdin=said, STEPWELL_URL=gateway.url, STEPWELL_TOKEN=token)
    assert json.loads(done.stdout) == {"taken": 5, "wrong": 3, "not yet acknowledged": 0}
    assert done.returncode == 1 and [line.partition(":")[0] for line in done.stderr.splitlines()] == [
        "line 6",
        "line 7",
        "line 8",
    ]
    kept = gateway.bodies("feedback")
    assert {feedback["author"] for feedback in kept} == {"ann"}
    assert (
        kept[1]["reward"] == 1.0 and kept[2]["rejected_id"] == "b" and kept[3]["correction"]["content"] == "It is 42."
    )


@pytest.mark.skipif(importlib.util.find_spec("langgraph") is None, reason="langgraph is not installed")
def test_a_graph_without_a_proxy(gateway: Any, token: str, tmp_path: Path) -> None:
    def script(call: ChatCall) -> Reply:
        if any(message.get("role") == "tool" for message in call.messages):
            return Reply(content="They cost 24 euros.")
        return Reply(tool_calls=[ToolCall("price", json.dumps({"article": "honey"}))])

    with ScriptedServer(script, tls=False) as server:
        environment = {"OPENAI_API_KEY": "sk-hush", "OPENAI_BASE_URL": server.base_url}
        done = run("langgraph_agent.py", STEPWELL_URL=gateway.url, STEPWELL_TOKEN=token, **environment)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"answer": "They cost 24 euros.", "acknowledged": 5}
    records = gateway.records()
    assert [record.kind for record in records].count("exchange.request") == 2
    assert all(b"hush" not in record.body for record in records)
    assert gateway.bodies("feedback")[0]["reward"] == 1.0


def test_a_service_tells_what_its_users_did(tmp_path: Path) -> None:
    secret = "a secret of the shop's own"
    service = Gateway(tmp_path / "spool", config=GatewayConfig.model_validate({"webhooks": {"shop": secret}}))
    lines = [
        {"event_id": "e1", "response_id": "chatcmpl-1", "type": "shown"},
        {"event_id": "e2", "response_id": "chatcmpl-1", "type": "edited", "text": "It is 42."},
        {"event_id": "e3", "response_id": "chatcmpl-1", "type": "resolved"},
        {"event_id": "e4", "response_id": "chatcmpl-1", "type": "rating", "value": 6, "scale": 5},
    ]
    try:
        said = "\n".join(map(json.dumps, lines))
        twice = [
            run(
                "live_service.py", "--source", "shop", stdin=said, STEPWELL_URL=service.url, STEPWELL_WEBHOOK_SECRET=key
            )
            for key in (secret, "the secret of nobody here")
        ]
        kept = {feedback["feedback_id"]: feedback for feedback in service.bodies("feedback")}
    finally:
        service.stop()
    assert (twice[0].returncode, json.loads(twice[0].stdout)) == (1, {"taken": 3, "wrong": 1})
    assert twice[0].stderr.startswith("e4: ")
    assert kept.keys() == {"e1", "e2", "e3"}
    assert kept["e1"]["label"] == "shown" and kept["e2"]["correction"]["content"] == "It is 42."
    assert kept["e3"]["reward"] == 1.0 and {one["response_id"] for one in kept.values()} == {"chatcmpl-1"}
    assert twice[1].returncode == 1 and "not delivered" in twice[1].stderr
