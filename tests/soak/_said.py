"""What the producers say: a function of their name and a number, so that nothing needs to be remembered to be checked."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from stepwell.sdk.records import Feedback, Step
from stepwell.spool import Entry

TURNS = 12
SHARED_EVERY = 10
REWARD_EVERY = 3


def step(name: str, number: int) -> Step:
    """The step of that number: a turn of a conversation, or every tenth time one that all producers submit."""
    if number % SHARED_EVERY == SHARED_EVERY - 1:
        return _turn("both", number, 0, f"both-{number}")
    return _turn(f"{name}-{number // TURNS}", number // TURNS, number % TURNS, f"{name}-{number}")


def entries(name: str, number: int) -> Iterator[Entry]:
    """As they go into a spool."""
    said = step(name, number)
    yield Entry(id=f"step.{said.step_id}", kind="step", body=said.model_dump_json(exclude_none=True).encode())
    if rewarded(number):
        event = Feedback(feedback_id=reward(name, number), step_id=said.step_id, reward=float(number), name=name)
        yield Entry(id=f"feedback.{event.feedback_id}", kind="feedback", body=event.model_dump_json().encode())


def rewarded(number: int) -> bool:
    return number % REWARD_EVERY == 0


def reward(name: str, number: int) -> str:
    return f"reward-{name}-{number}"


def _turn(trajectory: str, seed: int, turn: int, step_id: str) -> Step:
    ids = random.Random(f"{trajectory} {seed}")
    prompt, messages = _ids(ids, 60), [_message("user", f"{trajectory} begins")]
    response = _ids(ids, 20)
    for number in range(turn):
        prompt = [*prompt, *response, *_ids(ids, 12)]
        if number % 5 == 4:
            prompt[ids.randrange(len(prompt))] += 1  # the template said it otherwise this time
        messages += [_message("assistant", f"answer {number} 👋"), _message("user", f"and {number}?")]
        response = _ids(ids, 20)
    return Step(
        step_id=step_id,
        trajectory_id=trajectory,
        messages=messages,
        response=_message("assistant", f"answer {turn} 👋"),
        prompt_ids=prompt,
        response_ids=response,
        logprobs=[-0.25] * len(response),
    )


def _ids(source: random.Random, count: int) -> list[int]:
    return [source.randrange(150_000) for _ in range(count)]


def _message(role: str, text: str) -> dict[str, Any]:
    return {"role": role, "content": text}
