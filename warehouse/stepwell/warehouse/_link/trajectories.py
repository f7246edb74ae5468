"""What ingest remembers of a trajectory while its steps arrive."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stepwell.warehouse._encode.delta import Base
from stepwell.warehouse._link.attempts import Calls
from stepwell.warehouse._parse.keys import Keys

MAX_BASES = 16
"""Recent steps that a new one may be a difference to."""

_SAID = 256
"""Recent answers that the provider remembers, whose whole conversation is kept: a later call may name it and send the rest only."""

_PLACE_BYTES = 800
"""What a step's places in the dictionaries weigh, about."""
_BASE_BYTES = 1500
"""What a base weighs beside its tokens and its texts, the two hashes of its prompt included."""
_TEXT_BYTES = 60
"""What a text weighs beside its bytes, the places of it in tuples aside."""
_MEMORY_BYTES = 2500
"""What a trajectory weighs of which nothing is known."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the opening of a trajectory said about all its steps."""

    prompt_id: str | None = None
    group_id: str | None = None
    split: str | None = None
    policy_version: int | None = None


class Place(NamedTuple):
    """A step's place in its conversation."""

    step_id: str
    turn: int


@dataclass(frozen=True, slots=True)
class Said:
    """A prompt and its response, and the keys to go on with where they are at hand."""

    messages: tuple[bytes, ...]
    tail: Keys | None = None


@dataclass(slots=True)
class Memory:
    """One trajectory: where each conversation ended, and the steps near its end."""

    facts: Facts = field(default_factory=Facts)
    places: dict[str, Place] = field(default_factory=dict)
    """By conversation key, in hex: prompt and response; also by the key of the same without its system prompt."""
    turns: dict[str, int] = field(default_factory=dict)
    bases: deque[Base] = field(default_factory=lambda: deque(maxlen=MAX_BASES))
    longest: int = 0
    """No base has more tokens."""
    said: OrderedDict[str, Said] = field(default_factory=OrderedDict)
    """By step, what was said up to it, of those that a call may continue by the provider's id."""
    incomplete: set[str] = field(default_factory=set)
    """Steps whose prompt lacks its beginning, and so do those that continue them."""
    calls: Calls = field(default_factory=Calls)

    def remember(
        self,
        place: Place,
        keys: Iterable[str | None],
        base: Base | None,
        *,
        said: bool = False,
        tail: Keys | None = None,
    ) -> None:
        """Let later steps continue this one, under each of the keys that it has, and be differences to it unless `base` is None."""
        self.turns[place.step_id] = place.turn
        for key in keys:
            if key is not None:
                self.places[key] = place
        if base is None:
            return
        gone = _length(self.bases[0]) if len(self.bases) == MAX_BASES else 0
        self.bases.append(base)
        # Where the longest one goes, as after a history was cut short, the others tell.
        self.longest = max(map(_length, self.bases)) if gone == self.longest else max(self.longest, _length(base))
        if said:
            self.said[place.step_id] = Said(base.conversation, tail)
            if len(self.said) > _SAID:
                self.said.popitem(last=False)

    def base(self, step_id: str | None) -> Base | None:
        """A recent step."""
        for base in reversed(self.bases):
            if base.step_id == step_id:
                return base
        return None

    def conversation(self, step_id: str) -> Said | None:
        """A recent step's prompt and response."""
        if (said := self.said.get(step_id)) is not None:
            return said
        return None if (base := self.base(step_id)) is None else Said(base.conversation)

    @property
    def size(self) -> int:
        """Bytes held, about."""
        bases = sum(_BASE_BYTES + 8 * len(base.conversation) for base in self.bases)
        ids = [
            base.tokens if base.tokens.base is None else base.tokens.base
            for base in self.bases
            if base.tokens is not None
        ]
        bases += sum({id(buffer): buffer.nbytes for buffer in ids}.values())
        # Conversations that begin alike hold the same objects.
        held = {id(message): len(message) for said in self.said.values() for message in said.messages}
        held |= {id(message): len(message) for base in self.bases for message in base.conversation}
        held |= {id(base.tools): len(base.tools) for base in self.bases}
        texts = sum(held.values()) + _TEXT_BYTES * len(held)
        return _MEMORY_BYTES + bases + texts + _PLACE_BYTES * len(self.turns)


def _length(base: Base) -> int:
    return 0 if base.tokens is None else len(base.tokens)


def most_of(base: Base, texts: Sequence[bytes]) -> int:
    """Bytes that a step adds to its trajectory, at most: `base`, and these texts that nothing before it had."""
    own = sum(map(len, texts)) + _TEXT_BYTES * len(texts)
    ids = 0 if base.tokens is None else base.tokens.nbytes
    return _MEMORY_BYTES + _PLACE_BYTES + _BASE_BYTES + 8 * len(base.conversation) + ids + own


class Memories:
    """Trajectories by id, the least recently used ones forgotten beyond `max_bytes`: they are then read from the warehouse again."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._known: OrderedDict[str, Memory] = OrderedDict()
        self._sizes: dict[str, int] = {}
        self._grown: dict[str, int] = {}
        """By trajectory, bytes that were added since it was weighed, at most."""
        self._bytes = 0
        """Of all, at most: weighing tells how much less."""

    def __contains__(self, trajectory_id: str) -> bool:
        return trajectory_id in self._known

    def get(self, trajectory_id: str) -> Memory:
        """The trajectory's memory, empty for one never seen."""
        if trajectory_id not in self._known:
            self._known[trajectory_id] = Memory()
        self._known.move_to_end(trajectory_id)
        return self._known[trajectory_id]

    @property
    def crowded(self) -> bool:
        """Whether more is held than should be."""
        if self._bytes > self._max_bytes:  # else not, whatever the scales would say: they take long
            self._weigh()
        return self._bytes > self._max_bytes

    def grew(self, trajectory_id: str, size: int) -> None:
        """The trajectory holds up to so many bytes more."""
        self._grown[trajectory_id] = self._grown.get(trajectory_id, 0) + size
        self._bytes += size

    def shrink(self) -> None:
        """Forget what is too much. Only between rounds: what a round relies on must stay."""
        while self.crowded and self._known:
            oldest, _ = self._known.popitem(last=False)
            self._bytes -= self._sizes.pop(oldest, 0)

    def _weigh(self) -> None:
        for trajectory_id, grown in self._grown.items():
            size = self._known[trajectory_id].size
            self._bytes += size - self._sizes.get(trajectory_id, 0) - grown
            self._sizes[trajectory_id] = size
        self._grown.clear()

    def clear(self) -> None:
        self._known.clear()
        self._sizes.clear()
        self._grown.clear()
        self._bytes = 0
