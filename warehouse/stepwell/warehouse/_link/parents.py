"""Which step a step continues."""

from __future__ import annotations

from typing import Literal

from stepwell.warehouse._encode.align import common_prefix
from stepwell.warehouse._link.continues import Before
from stepwell.warehouse._link.trajectories import Memories, Memory, Place
from stepwell.warehouse._parse.draft import Draft

Changed = Literal["the system prompt", "the history"]
"""What a client rewrote of the conversation that the parent ended."""


def parent_of(
    draft: Draft, memory: Memory, before: Before | None, memories: Memories
) -> tuple[Place | None, Changed | None]:
    """The parent of a step of the trajectory of `memory`, and what was rewritten since.

    Who says it is believed: the step, then the id that the call continues. Else the deepest conversation that begins the prompt.
    One that differs in nothing but its system prompt is better than none; that this is the trajectory was found without it.
    """
    step, keys = draft.step, draft.keys
    if step.parent_id is not None:
        return Place(step.parent_id, memory.turns.get(step.parent_id, 0)), None
    if before is not None and before.answer is not None:
        home, step_id = before.answer.trajectory_id, before.answer.step_id
        turns = memories.get(home).turns if home in memories else {}
        return Place(step_id, turns.get(step_id, 0)), None
    for said in reversed(range(len(keys.prompt))):
        if (place := memory.places.get(keys.prompt[said])) is not None:
            return place, "the history" if keys.last_answer > said else None
    for said in reversed(range(len(keys.rest))):
        if (place := memory.places.get(keys.rest[said])) is not None:
            return place, "the history" if keys.last_answer > said + keys.leading else "the system prompt"
    return (None if draft.messages else _token_parent(draft, memory)), None


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
