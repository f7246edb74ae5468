"""A little run to be curated: three prompt groups of three trajectories, with texts and tokens."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tests.dashboard.house import House

GROUPS, MEMBERS = 3, 3
REWARDS = ((0.0, 1.0, 0.5), (1.0, 1.0, 1.0), (0.0, 1.0, None))
"""By group and member. The second group teaches nothing; the last trajectory has not ended."""
MODELS = ("qwen-rl", "llama-3", "qwen-rl")
TASKS = ("Sort a list without sort().", "Find why the loop never ends.", "Which customers never ordered?")


def turns(group: int, member: int) -> int:
    return 1 + (group + member) % 2


def every() -> list[tuple[int, int, int]]:
    """Group, member and turn of every step."""
    return [(g, m, t) for g in range(GROUPS) for m in range(MEMBERS) for t in range(turns(g, m))]


def name(group: int, member: int, turn: int | None = None) -> str:
    return f"task-{group}/{member}" + ("" if turn is None else f".{turn}")


def answer(member: int, turn: int) -> dict[str, Any]:
    call = {"type": "tool_call", "id": f"c{turn}", "name": "run_python", "arguments": '{"code": "print(3)"}'}
    return {"role": "assistant", "content": [{"type": "text", "text": f"Answer {member}, turn {turn}."}, call]}


def tokens(group: int, member: int, turn: int) -> tuple[list[int], list[int]]:
    """Prompt and response: each turn goes on where the one before ended."""
    prompt = [1, 2, 3, 10 + group]
    for before in range(turn):
        prompt += [*tokens(group, member, before)[1], 9]
    return prompt, [100 + member, 200 + turn]


def fill_tasks(house: House) -> None:
    """13 steps; all but `task-2/2` ended, and rewarded under the name `tests`. Committed."""
    now = datetime.now(UTC)
    for group, member in [(g, m) for g in range(GROUPS) for m in range(MEMBERS)]:
        told = {"trajectory_id": name(group, member), "group_id": f"task-{group}", "prompt_id": f"p{group}"}
        house.put("/trajectories", told)
        for turn in range(turns(group, member)):
            house.put("/steps", {**told, **_step(group, member, turn, now)})
        reward = REWARDS[group][member]
        if reward is not None:
            house.put("/feedback", {"trajectory_id": name(group, member), "reward": reward, "name": "tests"})
            house.put("/trajectories", {**told, "state": "completed"})
    house.commit()


def _step(group: int, member: int, turn: int, now: datetime) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": TASKS[group]}]}]
    for before in range(turn):
        result = {"type": "tool_result", "id": f"c{before}", "content": [{"type": "text", "text": "3"}]}
        messages += [answer(member, before), {"role": "tool", "content": [result]}]
    prompt, response = tokens(group, member, turn)
    finished = now - timedelta(minutes=60 - 10 * group - member - turn)
    return {
        "step_id": name(group, member, turn),
        "parent_id": name(group, member, turn - 1) if turn else None,
        "prompt_ids": prompt,
        "response_ids": response,
        "logprobs": [-0.5, -0.25],
        "messages": messages,
        "response": answer(member, turn),
        "model": MODELS[member],
        "policy": "qwen-rl",
        "policy_version": member,
        "fingerprint": "q",
        "sampling": {"temperature": 1.0},
        "started_at": (finished - timedelta(seconds=3)).isoformat(),
        "finished_at": finished.isoformat(),
    }
