"""The pictures of docs/dashboard.md: an hour of three agents, as the page shows it."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.dashboard.house import House
from tests.dashboard.visit import Visit

AGENTS = ("coder", "browser", "planner")
MODELS = ("qwen3-8b-rl", "qwen3-8b-rl", "gpt-5-mini", "claude-haiku")
STEPS = 400


def an_hour(house: House) -> list[dict[str, Any]]:
    """Steps of fifty trajectories in groups of five, thicker towards now, some of them failed; most trajectories rewarded. Committed."""
    chance, now = random.Random(7), datetime.now(UTC)
    steps: list[dict[str, Any]] = []
    for number in range(STEPS):
        trajectory, turn = number % 50, number // 50
        finished = now - timedelta(seconds=3500 * (1 - (number + 1) / STEPS) ** 1.3 + chance.uniform(1, 90))
        prompt = list(range(40 + 160 * turn))
        answer = list(range(chance.randrange(20, 200)))
        steps.append(
            {
                "step_id": f"swe-{trajectory // 5:02}-{trajectory % 5}.{turn}",
                "trajectory_id": f"swe-{trajectory // 5:02}-{trajectory % 5}",
                "group_id": f"swe-{trajectory // 5:02}",
                "prompt_id": f"issue-{trajectory // 5}",
                "prompt_ids": prompt,
                "response_ids": answer,
                "logprobs": [-0.1] * len(answer),
                "usage": {"prompt_tokens": len(prompt), "completion_tokens": len(answer)},
                "model": MODELS[trajectory % 4],
                "policy": "qwen3-8b-rl" if trajectory % 4 < 2 else None,
                "policy_version": 700 + number // 150 if trajectory % 4 < 2 else None,
                "status": "error" if chance.random() < 0.03 else "truncated" if chance.random() < 0.02 else "ok",
                "started_at": (finished - timedelta(seconds=chance.uniform(0.4, 9))).isoformat(),
                "finished_at": finished.isoformat(),
                "metadata": {"agent": AGENTS[trajectory % 3]},
            }
        )
    house.put("/steps", *[{name: value for name, value in step.items() if value is not None} for step in steps])
    ended = [f"swe-{trajectory // 5:02}-{trajectory % 5}" for trajectory in range(42)]
    house.put("/trajectories", *[{"trajectory_id": name, "state": "completed"} for name in ended])
    house.put(
        "/feedback",
        *[
            {
                "feedback_id": f"r-{name}",
                "trajectory_id": name,
                "reward": round(chance.random(), 2),
                "name": "tests_passed",
            }
            for name in ended[:38]
        ],
    )
    house.commit()
    return steps


def test_the_overview_of_an_hour(visit: Visit, house: House) -> None:
    an_hour(house)
    visit.go()
    visit.until("document.querySelectorAll('.chart canvas').length === 4")
    visit.page.get_by_role("button", name="model", exact=True).click()
    visit.until("document.querySelectorAll('.chart .legend').length > 8")
    assert visit.figure("Steps") == str(STEPS)
    assert visit.page.locator(".attention li", has_text="have no reward").inner_text().split()[0] == "4"
    visit.picture("overview")


def test_the_live_tail(visit: Visit, house: House) -> None:
    steps = an_hour(house)
    visit.go("#/collect")
    visit.page.locator(".tail .badge.good", has_text="live").wait_for()
    chance = random.Random(3)
    for turn, step in enumerate(steps[:12]):
        finished = datetime.now(UTC)
        again = {**step, "step_id": f"{step['trajectory_id']}.{8 + turn}", "finished_at": finished.isoformat()}
        again["started_at"] = (finished - timedelta(seconds=chance.uniform(0.4, 9))).isoformat()
        house.put("/steps", {name: value for name, value in again.items() if value is not None})
    house.put(
        "/feedback",
        {"feedback_id": "judged-1", "step_id": "swe-00-1.9", "label": "good plan", "author": "ada"},
        {"feedback_id": "judged-2", "trajectory_id": "swe-00-2", "reward": 1, "name": "tests_passed", "author": "ci"},
    )
    house.commit()
    visit.page.get_by_text("12 steps and 2 events came").wait_for()
    visit.until("document.querySelectorAll('.table tbody tr').length > 20")
    visit.picture("collect")
