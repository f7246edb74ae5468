"""Steps by hand: as the columns that the reader decides from, and as stories, which have the tokens as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from stepwell.reader._select.steps import ABSENT, Coded, Steps, Trajectories


def coded(texts: Sequence[str | None]) -> Coded:
    return Coded.of(pa.chunked_array([pa.array(texts, pa.string())]))


def steps_of(
    trajectory: Sequence[int] = (0,),
    groups: Sequence[str | None] = ("g",),
    prompts: Sequence[str] | None = None,
    **columns: Any,
) -> Steps:
    """Steps of one or more trajectories with nothing wrong with them, but for the `columns` given: by their names in `Steps`.

    `groups` and `prompts` are those of the trajectories. Texts are given as texts.
    """
    size = len(trajectory)
    names = coded(groups)
    made: dict[str, Any] = {
        "parent": np.full(size, ABSENT, np.int32),
        "turn": np.zeros(size, np.int64),
        "selected": np.ones(size, np.bool_),
        "training": np.ones(size, np.bool_),
        **{
            name: np.zeros(size, np.bool_)
            for name in ("superseded", "side", "truncated", "derived", "realised", "reshaped")
        },
        "prompt_length": np.full(size, 3, np.int32),
        "response_length": np.full(size, 2, np.int32),
        "drift_at": np.full(size, ABSENT, np.int32),
        **{name: [None] * size for name in ("untrainable", "drift")},
        "sampling": ["{}"] * size,
        "policy": ["pi"] * size,
        "fingerprint": ["m"] * size,
        "prompt_key": np.zeros(size, np.uint64),
        "rewards": {},
    }
    for name, values in columns.items():
        made[name] = np.array(values, made[name].dtype) if isinstance(made.get(name), np.ndarray) else values
    given = {name: coded(values) if isinstance(values, list) else values for name, values in made.items()}
    return Steps(
        step_id=pa.array([f"s{row}" for row in range(size)]),
        trajectory=np.array(trajectory, np.int32),
        trajectories=Trajectories(
            names=pa.array([f"t{number}" for number in range(len(groups))]),
            group=names.codes,
            groups=pa.array(names.names, pa.string()),
            prompt=coded(prompts or ["p"] * len(groups)),
            training=np.ones(len(groups), np.bool_),
            ended=np.ones(len(groups), np.bool_),
            rewards={},
        ),
        **{"logprobs": made["response_length"], **given},
    )


@dataclass
class Story:
    """Steps of some trajectories with their tokens, and what the warehouse would have recorded of them. New tokens are new to all."""

    prompts: list[list[int]] = field(default_factory=list)
    responses: list[list[int]] = field(default_factory=list)
    trajectory: list[int] = field(default_factory=list)
    parent: list[int] = field(default_factory=list)
    drift_at: list[int] = field(default_factory=list)
    fresh: count[int] = field(default_factory=lambda: count(1000))

    def tokens(self, row: int) -> list[int]:
        return self.prompts[row] + self.responses[row]

    def add(self, trajectory: int, parent: int, prompt: list[int], own: int, response: int, drift_at: int = -1) -> int:
        """A step with this prompt and `own` more tokens, and a response of so many; its row."""
        self.prompts.append([*prompt, *(next(self.fresh) for _ in range(own))])
        self.responses.append([next(self.fresh) for _ in range(response)])
        self.trajectory.append(trajectory)
        self.parent.append(parent)
        self.drift_at.append(drift_at)
        return len(self.parent) - 1

    @property
    def steps(self) -> Steps:
        named = {tuple(prompt): number for number, prompt in enumerate(self.prompts, 1)}
        return steps_of(
            self.trajectory,
            ["g"] * (max(self.trajectory) + 1),
            parent=self.parent,
            prompt_length=[len(prompt) for prompt in self.prompts],
            response_length=[len(response) for response in self.responses],
            drift_at=self.drift_at,
            drift=[None if at < 0 else "retokenised" for at in self.drift_at],
            prompt_key=[named[tuple(prompt)] for prompt in self.prompts],
        )


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Trajectories of a few tasks; steps that append, drift, or answer the prompt of an earlier one again."""
    story, tasks = Story(), [[1, 2, 3], [1, 2, 4, 5]]
    few = st.integers(0, 3)
    for trajectory in range(draw(st.integers(1, 3))):
        rows = [story.add(trajectory, -1, draw(st.sampled_from(tasks)), 0, draw(few))]
        for _ in range(draw(st.integers(0, 5))):
            before = draw(st.sampled_from(rows))
            how = draw(st.sampled_from(("append", "drift", "again")))
            tokens = story.tokens(before)
            if how == "append":
                rows.append(story.add(trajectory, before, tokens, draw(few), draw(few)))
            elif how == "drift":
                at = draw(st.integers(1, len(tokens) - 1))
                rows.append(story.add(trajectory, before, tokens[:at], 1 + draw(few), draw(few), at))
            else:
                parent, drift_at = story.parent[before], story.drift_at[before]
                rows.append(story.add(trajectory, parent, story.prompts[before], 0, draw(few), drift_at))
    return story
