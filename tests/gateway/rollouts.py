"""Prompt groups that share a beginning, as a trainer would get them; and what is wrong with some."""

from __future__ import annotations

from typing import Any

from tests.gateway.scene import Scene

GROUPS, MEMBERS = 4, 3
OPENING = [1, 2, 3]
"""Of every prompt."""


def turns_of(group: int, member: int) -> int:
    return 1 + (group + member) % 3


def tokens_of(group: int, member: int, turn: int) -> tuple[list[int], list[int]]:
    """Prompt and response of a turn: each goes on where the one before ended."""
    prompt = [*OPENING, 10 + group]
    for before in range(turn):
        prompt += [*tokens_of(group, member, before)[1], 7]
    return prompt, [100 + 10 * member + turn, 101 + member]


def every() -> list[tuple[int, int, int]]:
    return [(g, m, t) for g in range(GROUPS) for m in range(MEMBERS) for t in range(turns_of(g, m))]


def name_of(group: int, member: int, turn: int | None = None) -> str:
    return f"g{group}m{member}" if turn is None else f"g{group}m{member}.{turn}"


def roll_out(scene: Scene) -> None:
    """Groups `g0` to `g3` of three trajectories, ended and rewarded; and one eval trajectory, one step of text, one without logprobs."""
    for group in range(GROUPS):
        for member in range(MEMBERS):
            trajectory = name_of(group, member)
            told = {"trajectory_id": trajectory, "group_id": f"g{group}", "prompt_id": f"p{group}"}
            scene.put("/trajectories", told)
            for turn in range(turns_of(group, member)):
                scene.put("/steps", _step(group, member, turn))
            scene.put("/feedback", {"trajectory_id": trajectory, "reward": float(member % 2)})
            scene.put("/trajectories", {**told, "state": "completed"})
    scene.put("/trajectories", {"trajectory_id": "e", "group_id": "e", "split": "eval"})
    scene.put("/steps", {"step_id": "e.0", "trajectory_id": "e", "prompt_ids": [1], "response_ids": [2]})
    scene.put("/steps", {"step_id": "text.0", "trajectory_id": "text", "messages": [_said("Hi")], "response": "Ho"})
    scene.commit()


def _step(group: int, member: int, turn: int) -> dict[str, Any]:
    prompt, response = tokens_of(group, member, turn)
    return {
        "step_id": name_of(group, member, turn),
        "trajectory_id": name_of(group, member),
        "parent_id": name_of(group, member, turn - 1) if turn else None,
        "prompt_ids": prompt,
        "response_ids": response,
        "logprobs": [-0.5, -0.25],
        "policy": "pi",
        "sampling": {"temperature": 1.0},
        "fingerprint": "m",
    }


def _said(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}
