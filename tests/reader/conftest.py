"""What the reader's tests share: a strategy of steps that branch in every way, and a trie built the slow way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import strategies as st

from stepwell.reader import Sequences


@dataclass(frozen=True)
class Step:
    prompt: list[int]
    response: list[int]
    trained: list[bool]
    logprobs: list[float]

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.response


@dataclass
class Trie:
    """A dict trie, one node per distinct prefix."""

    nodes: dict[tuple[int, int], int] = field(default_factory=dict)
    parents: list[int] = field(default_factory=list)

    def insert(self, tokens: list[int]) -> list[int]:
        path = [-1]
        for token in tokens:
            key = (path[-1], token)
            if key not in self.nodes:
                self.nodes[key] = len(self.parents)
                self.parents.append(path[-1])
            path.append(self.nodes[key])
        return path[1:]

    def ancestors(self, node: int) -> set[int]:
        """The node and all above it."""
        found = set()
        while node >= 0:
            found.add(node)
            node = self.parents[node]
        return found


@st.composite
def _branching_steps(draw: st.DrawFn) -> list[Step]:
    """Steps over three tokens, most of them grown from an earlier one cut anywhere: duplicates, strict prefixes,
    branches inside responses, tokens trained in one step and context in another, and several roots."""
    ids = st.lists(st.integers(0, 2), max_size=6)
    steps: list[Step] = []
    for _ in range(draw(st.integers(0, 9))):
        tokens: list[int] = []
        if steps and draw(st.integers(0, 4)) > 0:
            base = draw(st.sampled_from(steps)).tokens
            kept: int = draw(st.integers(0, len(base)))
            tokens = base[:kept]
        tokens = [*tokens, *draw(ids)] or [0]
        cut = draw(st.integers(1, len(tokens)))
        size = len(tokens) - cut
        trained = draw(st.lists(st.booleans(), min_size=size, max_size=size))
        logprobs = draw(st.lists(st.floats(-20, 0, width=32), min_size=size, max_size=size))
        steps.append(Step(tokens[:cut], tokens[cut:], trained, logprobs))
    return steps


@pytest.fixture(scope="session")
def branching_steps() -> st.SearchStrategy[list[Step]]:
    return _branching_steps()


@pytest.fixture(scope="session")
def new_trie() -> Callable[[], Trie]:
    return Trie


@pytest.fixture(scope="session")
def to_sequences() -> Callable[..., Sequences]:
    def build(steps: list[Step], *, masked: bool = False, logprobs: bool = True) -> Sequences:
        return Sequences.from_lists(
            [s.prompt for s in steps],
            [s.response for s in steps],
            [s.logprobs for s in steps] if logprobs else None,
            loss_mask=[s.trained for s in steps] if masked else None,
            step_index=np.arange(len(steps)) * 10 + 7,
        )

    return build


@pytest.fixture(scope="session")
def branched() -> Sequences:
    """Four steps: a prompt answered twice, the second answer cut short, and the first answer's continuation."""
    return Sequences.from_lists(
        [[1, 2], [1, 2], [1, 2], [1, 2, 3, 4, 9]],
        [[3, 4], [3, 5], [3], [6]],
        [[-0.1, -0.2], [-0.3, -0.4], [-0.5], [-0.6]],
        step_index=[100, 101, 102, 103],
    )
