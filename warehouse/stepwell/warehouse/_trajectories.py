"""What ingest remembers of a trajectory while its steps arrive."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from stepwell.warehouse._delta import Base

_BASES = 16
"""Recent steps that a new one may be a difference to."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the opening of a trajectory said about all its steps."""

    prompt_id: str | None = None
    group_id: str | None = None
    split: str | None = None
    policy_version: int | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """A step's place in its conversation."""

    step_id: str
    turn: int


@dataclass(slots=True)
class Memory:
    """One trajectory: where each conversation ended, and the steps near its end."""

    facts: Facts = field(default_factory=Facts)
    places: dict[str, Place] = field(default_factory=dict)
    """By conversation key, in hex: prompt and response."""
    turns: dict[str, int] = field(default_factory=dict)
    bases: deque[Base] = field(default_factory=lambda: deque(maxlen=_BASES))

    def remember(self, place: Place, conversation_key: str | None, base: Base) -> None:
        """Let later steps continue this one, and be differences to it."""
        self.turns[place.step_id] = place.turn
        if conversation_key is not None:
            self.places[conversation_key] = place
        self.bases.append(base)

    @property
    def size(self) -> int:
        """Bytes held, about."""
        tokens = sum(base.tokens.nbytes for base in self.bases if base.tokens is not None)
        return 1000 + tokens + sum(len(message) for base in self.bases for message in base.conversation)


class Memories:
    """Trajectories by id, the least recently used ones forgotten beyond `max_bytes`: they are then read from the warehouse again."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._known: OrderedDict[str, Memory] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._bytes = 0

    def __contains__(self, trajectory_id: str) -> bool:
        return trajectory_id in self._known

    def get(self, trajectory_id: str) -> Memory:
        """The trajectory's memory, empty for one never seen."""
        if trajectory_id not in self._known:
            self._known[trajectory_id] = Memory()
        self._known.move_to_end(trajectory_id)
        return self._known[trajectory_id]

    def changed(self, trajectory_id: str) -> None:
        """Weigh the trajectory again."""
        size = self._known[trajectory_id].size
        self._bytes += size - self._sizes.get(trajectory_id, 0)
        self._sizes[trajectory_id] = size

    def shrink(self) -> None:
        """Forget what is too much. Only between rounds: what a round relies on must stay."""
        while self._bytes > self._max_bytes and self._known:
            oldest, _ = self._known.popitem(last=False)
            self._bytes -= self._sizes.pop(oldest, 0)

    def clear(self) -> None:
        self._known.clear()
        self._sizes.clear()
        self._bytes = 0
