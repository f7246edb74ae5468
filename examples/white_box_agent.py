"""An agent loop of your own, on an engine of your own, that submits every step with its token ids, and the rewards.

The engine here is a toy that guesses a number. Put your engine's call in its place: what matters is that prompt ids, sampled ids
and logprobs are handed on as the engine gave them.

    stepwell up                                     # in one terminal
    python examples/white_box_agent.py --games 3    # in another
"""

from __future__ import annotations

import argparse
import json
import math
import random
from array import array
from dataclasses import dataclass

from stepwell import sdk

LOW, HIGH, TURNS = 1, 100, 8
POLICY_VERSION = 1


@dataclass
class Sampled:
    """What an engine gives for a prompt."""

    ids: list[int]
    logprobs: array[float]
    text: str


class ToyEngine:
    """Guesses numbers; its tokens are the bytes of its text."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def generate(self, prompt_ids: list[int], low: int, high: int) -> Sampled:
        guess = random.Random(f"{self._seed} {prompt_ids}").randint(low, high)  # noqa: S311 - a game
        ids = list(f"{guess}".encode())
        return Sampled(ids, array("f", [-math.log(high - low + 1) / len(ids)] * len(ids)), f"{guess}")


def play(engine: ToyEngine, secret: int) -> list[str]:
    """One rollout: the ids of its steps."""
    steps: list[str] = []
    with sdk.trajectory(
        prompt=f"guess-{secret}", group=f"round-1/guess-{secret}", policy_version=POLICY_VERSION
    ) as trajectory:
        prompt_ids, low, high = list(f"Guess a number from {LOW} to {HIGH}.\n".encode()), LOW, HIGH
        for turn in range(TURNS):
            sampled = engine.generate(prompt_ids, low, high)
            steps.append(
                sdk.submit_step(
                    prompt_ids=prompt_ids,
                    response_ids=sampled.ids,
                    logprobs=sampled.logprobs,
                    fingerprint="toy:bytes",
                    metadata={"turn": turn},
                )
            )
            guess = int(sampled.text)
            if guess == secret:
                trajectory.label("solved")
                trajectory.reward(1.0 - turn / TURNS, name="game")
                return steps
            low, high = (guess + 1, high) if guess < secret else (low, guess - 1)
            prompt_ids = [*prompt_ids, *sampled.ids, *f"\n{'More' if guess < secret else 'Less'}.\n".encode()]
        trajectory.reward(0.0, name="game")
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    engine = ToyEngine(options.seed)
    steps = [step for game in range(options.games) for step in play(engine, secret=10 + 7 * game)]
    flushed = sdk.flush(timeout=10)
    print(json.dumps({"steps": len(steps), "not yet acknowledged": flushed.unacknowledged, "on disk": flushed.spooled}))


if __name__ == "__main__":
    main()
