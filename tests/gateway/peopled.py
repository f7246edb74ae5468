"""Steps that differ in everything that lists are filtered and sorted by, with what a filter must find of them worked out in Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.gateway.scene import Scene

BEGUN = datetime(2026, 3, 1, 12, tzinfo=UTC)
NEWEST = {"pi": 7, "rho": 3}
WORDS = ("kiwi", "mango", "papaya")


def people(scene: Scene) -> list[dict[str, Any]]:
    """Forty steps of ten trajectories in three groups (and one in none), in four commits; as they are to be found."""
    steps = [_step(number) for number in range(40)]
    for number in range(10):
        group = {} if number == 9 else {"group_id": f"g'{number // 3}", "prompt_id": f"p{number // 3}"}
        opened = {"trajectory_id": f"t{number}", **group, "split": "eval" if number == 8 else "train"}
        scene.put("/trajectories", {**opened, "metadata": {"group_size": 3}})
    for start in range(0, 40, 10):
        scene.put("/steps", *(_submitted(step) for step in steps[start : start + 10]))
        scene.commit()
    for number in range(10):
        if number % 4 != 3:
            assert scene.http.post(f"/api/v1/trajectories/t{number}/complete").status_code == 200
        if number != 4:
            reward = 1.0 if number < 3 else number / 10
            scene.put("/feedback", {"trajectory_id": f"t{number}", "reward": reward})
    for step in steps:
        if step["label"] is not None:
            scene.put("/feedback", {"step_id": step["step_id"], "label": step["label"]})
    scene.commit()
    return steps


def _step(number: int) -> dict[str, Any]:
    trajectory = number // 4
    ended, rewarded = trajectory % 4 != 3, trajectory != 4
    own = 0.25 if number % 5 == 0 else None
    of_trajectory = (1.0 if trajectory < 3 else trajectory / 10) if rewarded else None
    policy = "pi" if number % 2 else "rho"
    return {
        "step_id": f"s'{number:02}",
        "trajectory_id": f"t{trajectory}",
        "group_id": None if trajectory == 9 else f"g'{trajectory // 3}",
        "prompt_id": None if trajectory == 9 else f"p{trajectory // 3}",
        "split": "eval" if trajectory == 8 else "train",
        "model": f"m{number % 3}",
        "agent": (None, "coder", "critic")[number % 3],
        "policy": policy,
        "policy_version": number % 8 if policy == "pi" else number // 2 % 4,
        "trainable": number % 10 != 9,
        "status": "error" if number % 7 == 6 else "ok",
        "output_tokens": 2 if number % 9 == 8 else number * 3 % 11,
        "usage": number % 9 != 8,
        "word": WORDS[number % 3] if number % 2 else None,
        "tag": "nightly" if number % 6 == 0 else None,
        "label": "good" if number % 8 == 1 else None,
        "finished_at": BEGUN + timedelta(minutes=number),
        "reward": own if own is not None else of_trajectory,
        "own": own,
        "state": "completed" if ended else "open",
        "number": number,
    }


def _submitted(step: dict[str, Any]) -> dict[str, Any]:
    names = ("step_id", "trajectory_id", "model", "policy", "policy_version", "status")
    metadata = {"agent": step["agent"]} if step["agent"] else {"session": "codex:1"} if step["number"] == 0 else {}
    said = f"look at the {step['word']} number{step['number']}" if step["word"] else "nothing"
    return {
        **{name: step[name] for name in names},
        "messages": [{"role": "user", "content": said}],
        "response": {"role": "assistant", "content": "done"},
        "prompt_ids": [1, 2, step["number"]],
        "response_ids": [3, 4],
        "dialect": "openai.chat",
        **({"usage": {"completion_tokens": step["output_tokens"]}} if step["usage"] else {}),
        "metadata": {**metadata, **({"tags": [step["tag"]]} if step["tag"] else {})},
        "started_at": step["finished_at"].isoformat(),
        "finished_at": step["finished_at"].isoformat(),
        **({} if step["trainable"] else {"trainable": False, "untrainable_reason": "a test"}),
        **({} if step["own"] is None else {"reward": step["own"]}),
    }
