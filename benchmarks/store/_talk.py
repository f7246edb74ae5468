"""Made-up conversations of agents with a policy: token ids, logprobs and texts, the same in every run.

Ids are uniform over the vocabulary and logprobs random, so that nothing but repetition can be saved. Texts are words of a
vocabulary of their own, frequent ones more often, at four characters per token: they compress about as prose does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

VOCABULARY = 150_000
CHARACTERS = 4
"""Per token."""
_WORDS = 4_000

Drift = Literal["none", "retokenised", "clock"]
"""retokenised: a prompt holds the answers before it in other ids than were sampled. clock: something near its start changes each time."""


@dataclass(frozen=True)
class Shape:
    """How many conversations of how many turns; ids of the first prompt, of what comes between two answers, and of an answer."""

    conversations: int
    turns: int = 20
    opening: int = 416
    between: int = 250
    answer: int = 160
    drift: Drift = "none"

    @property
    def steps(self) -> int:
        return self.conversations * self.turns

    @property
    def prompt_ids(self) -> int:
        """Of all steps, as long as nothing drifts."""
        grown = (self.turns - 1) * self.turns // 2 * (self.between + self.answer)
        return self.conversations * (self.turns * self.opening + grown)


@dataclass(frozen=True)
class Turn:
    """One call of the policy: what it was given and what it said."""

    trajectory: str
    number: int
    prompt: NDArray[np.int32]
    messages: list[dict[str, Any]]
    response: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    text: str

    @property
    def id(self) -> str:
        return f"{self.trajectory}.{self.number}"


def talk(shape: Shape, name: str, first: int = 0) -> Iterator[Turn]:
    """All turns, the conversations side by side as those of one batch of rollouts are; from conversation number `first` on."""
    running = [_conversation(shape, f"{name}-{number}", number) for number in range(first, first + shape.conversations)]
    for turns in zip(*running, strict=True):
        yield from turns


def _conversation(shape: Shape, trajectory: str, number: int) -> Iterator[Turn]:
    chance = np.random.default_rng([20260401, number])
    shared = np.random.default_rng(20260401)  # the system prompt is everybody's
    task = shape.opening // 4
    prompt = np.concatenate([_ids(shared, shape.opening - task), _ids(chance, task)])
    system = _text(shared, shape.opening - task)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": _text(chance, task)}]
    for turn in range(shape.turns):
        if shape.drift == "clock":
            prompt = prompt.copy()
            prompt[8] = turn
            messages = [{"role": "system", "content": f"It is turn {turn}. {system}"}, *messages[1:]]
        response, text = _ids(chance, shape.answer), _text(chance, shape.answer)
        logprobs = np.log(chance.random(shape.answer, np.float32) + np.float32(1e-6))
        yield Turn(trajectory, turn, prompt, messages, response, logprobs, text)
        kept = response
        if shape.drift == "retokenised":
            kept = np.delete(response, shape.answer // 2)
            kept[shape.answer // 2] = (kept[shape.answer // 2] + 1) % VOCABULARY
        prompt = np.concatenate([prompt, kept, _ids(chance, shape.between)])
        said, seen = {"role": "assistant", "content": text}, {"role": "user", "content": _text(chance, shape.between)}
        messages = [*messages, said, seen]


def _ids(chance: np.random.Generator, count: int) -> NDArray[np.int32]:
    return chance.integers(0, VOCABULARY, count, np.int32)


def _text(chance: np.random.Generator, tokens: int) -> str:
    words, odds = _vocabulary()
    size = tokens * CHARACTERS
    places = np.searchsorted(odds, chance.random(size // 4))
    return " ".join(words[place] for place in places)[:size]


@cache
def _vocabulary() -> tuple[list[str], NDArray[np.float64]]:
    chance = np.random.default_rng(7)
    letters = np.array(list("etaoinshrdlucmfwygpbvkxqjz_."))
    lengths = chance.integers(2, 10, _WORDS)
    words = ["".join(chance.choice(letters, length)) for length in lengths]
    odds = 1 / (np.arange(_WORDS) + 2.7)
    return words, np.cumsum(odds / odds.sum())
