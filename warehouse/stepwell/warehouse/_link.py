"""Lineage: which trajectory a step belongs to, and which step it continues.

Three questions, three answers. The trajectory is what the producer says; without a word from it, the one whose conversation this
step continues; else a new one, named after the step's call. The parent is the deepest earlier step *inside that trajectory* whose
prompt and response begin this step's prompt, by canonical messages, or by tokens where there is no text. How the tokens relate is
the encoder's business.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from stepwell.warehouse._delta import Delta, as_base, common_prefix, encode
from stepwell.warehouse._draft import Draft
from stepwell.warehouse._trajectories import Facts, Memories, Memory, Place

INFERRED = "auto-"
"""How the ids of trajectories begin that nobody named."""

_ANONYMOUS_KEYS = 200_000


@dataclass(frozen=True, slots=True)
class Linked:
    """A draft with its place and its encoding."""

    draft: Draft
    trajectory_id: str
    facts: Facts
    parent_id: str | None
    turn: int
    delta: Delta


class Linker:
    """Places steps one after another; what it remembers of trajectories lives in `memories`."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self._anonymous: OrderedDict[str, str] = OrderedDict()

    def trajectory_of(self, draft: Draft) -> str:
        """The trajectory's id, found without reading the warehouse."""
        if draft.step.trajectory_id is not None:
            return draft.step.trajectory_id
        for key in reversed(draft.prompt_keys):
            if (known := self._anonymous.get(key)) is not None:
                return known
        return f"{INFERRED}{draft.step.call_id or draft.step.step_id}"

    def knows(self, key: str) -> bool:
        """Whether memory has an anonymous conversation of this key."""
        return key in self._anonymous

    def learn(self, key: str, trajectory_id: str) -> None:
        """A conversation that an anonymous agent may continue belongs to this trajectory."""
        self._anonymous[key] = trajectory_id
        if len(self._anonymous) > _ANONYMOUS_KEYS:
            self._anonymous.popitem(last=False)

    def forget(self) -> None:
        """Start again from what is stored."""
        self._memories.clear()
        self._anonymous.clear()

    def place(self, draft: Draft) -> Linked:
        """The step's parent, turn and encoding; from now on later steps may continue it."""
        trajectory_id = self.trajectory_of(draft)
        memory = self._memories.get(trajectory_id)
        parent = _parent(draft, memory)
        turn = parent.turn + 1 if parent else 0
        delta = encode(draft, memory.bases)
        memory.remember(Place(draft.step.step_id, turn), draft.conversation_key, as_base(draft, delta))
        self._memories.changed(trajectory_id)
        if draft.step.trajectory_id is None and draft.conversation_key is not None:
            self.learn(draft.conversation_key, trajectory_id)
        return Linked(draft, trajectory_id, memory.facts, parent.step_id if parent else None, turn, delta)


def _parent(draft: Draft, memory: Memory) -> Place | None:
    if draft.step.parent_id is not None:
        return Place(draft.step.parent_id, memory.turns.get(draft.step.parent_id, 0))
    for key in reversed(draft.prompt_keys):
        if (place := memory.places.get(key)) is not None:
            return place
    return None if draft.messages else _token_parent(draft, memory)


def _token_parent(draft: Draft, memory: Memory) -> Place | None:
    """Of the recent steps whose tokens all begin this prompt, the one with the most."""
    if draft.tokens is None:
        return None
    prompt = draft.tokens[: draft.prompt_length]
    whole = [
        base
        for base in memory.bases
        if base.tokens is not None and len(base.tokens) and common_prefix(base.tokens, prompt) == len(base.tokens)
    ]
    deepest = max(whole, key=lambda base: 0 if base.tokens is None else len(base.tokens), default=None)
    return Place(deepest.step_id, memory.turns.get(deepest.step_id, 0)) if deepest else None
