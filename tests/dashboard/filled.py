"""What the tests of views put into the warehouse: a small run of two agents and three models, and words that nobody should trust."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.dashboard.house import House

MODELS = ("qwen-rl", "gpt-4o-mini", "llama-3")
TRAJECTORIES, TURNS = 6, 5
HOSTILE = "<script>window.hit=1</script><img src=x onerror='window.hit=2'>\u202e\u0007\"'&"
"""Markup, an override of direction, a control character, quotes."""
NAME = HOSTILE.replace("\u0007", "")
"""What is refused in no name: those have no control characters."""


def fill(house: House) -> list[dict[str, Any]]:
    """30 steps, finished a second apart up to now: two of them failed; four trajectories ended, three of them with a reward. Committed."""
    now = datetime.now(UTC)
    steps = [_step(number, now) for number in range(TRAJECTORIES * TURNS)]
    house.put("/steps", *steps)
    for number in range(4):
        house.put("/trajectories", {"trajectory_id": f"run/{number}", "state": "completed"})
    rewards = [
        {"feedback_id": f"f{number}", "trajectory_id": f"run/{number}", "reward": number % 2} for number in range(3)
    ]
    house.put("/feedback", *rewards)
    house.commit()
    return steps


def _step(number: int, now: datetime) -> dict[str, Any]:
    trajectory, turn = number % TRAJECTORIES, number // TRAJECTORIES
    finished = now - timedelta(seconds=TRAJECTORIES * TURNS - number)
    return {
        "step_id": f"run/{trajectory}.{turn}",
        "trajectory_id": f"run/{trajectory}",
        "group_id": f"task-{trajectory % 2}",
        "prompt_ids": list(range(1, 10 + 3 * turn)),
        "response_ids": [7, 8],
        "logprobs": [-0.5, -0.25],
        "usage": {"prompt_tokens": 9 + 3 * turn, "completion_tokens": 2},
        "model": MODELS[trajectory % 3],
        "policy": "rl",
        "policy_version": trajectory // 3,
        "status": "error" if number in (4, 9) else "ok",
        "started_at": (finished - timedelta(seconds=2)).isoformat(),
        "finished_at": finished.isoformat(),
        "metadata": {"agent": ("coder", "browser")[trajectory % 2]},
    }


def hostile(house: House) -> None:
    """A step every one of whose words is an attack. Committed."""
    names = {name: f"{name}{NAME}" for name in ("step_id", "trajectory_id", "group_id", "prompt_id", "model", "policy")}
    messages = [{"role": "user", "content": HOSTILE}]
    agent = {"agent": HOSTILE}
    house.put(
        "/steps",
        {
            **names,
            "messages": messages,
            "response": HOSTILE,
            "metadata": agent,
            "finished_at": datetime.now(UTC).isoformat(),
        },
    )
    house.put(
        "/feedback",
        {"feedback_id": f"f{NAME}", "step_id": names["step_id"], "label": NAME, "comment": HOSTILE, "author": NAME},
    )
    house.commit()
