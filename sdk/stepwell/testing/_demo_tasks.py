"""The four tasks of the demo, each with the answer its reward is computed from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoTask:
    """A question for the example agent; a rollout is right when the agent's printed answer equals `answer`."""

    prompt_id: str
    question: str
    answer: str


DEMO_TASKS: list[DemoTask] = [
    DemoTask(
        "market-stall",
        "Mira sells 12 jars of honey and 9 jars of jam at the market. Look up both prices. "
        "How many euros does she take in?",
        "150",
    ),
    DemoTask(
        "school-trip",
        "134 pupils and 11 teachers travel to the museum by bus. Look up the seats and the price of a bus. "
        "How many euros do the buses cost in all?",
        "930",
    ),
    DemoTask(
        "paint-shop",
        "Jürgen paints 6 walls of 15 m² each, with two coats. Look up the coverage and the price of a bucket "
        "of paint. How many euros do the buckets cost?",
        "190",
    ),
    DemoTask(
        "night-train",
        "The night train takes 7 hours 20 minutes, of which it stands still for 35 minutes at the border 🚂. "
        "Look up its speed. How many kilometres does it travel?",
        "810",
    ),
]
"""In the order of the example agent's `--task`."""
