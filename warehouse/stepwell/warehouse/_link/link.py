"""Lineage: which trajectory a step belongs to, and which step it continues.

Three questions, three answers. The trajectory is what the producer says; without a word from it, the one whose conversation this
step continues; else a new one, named after the step's call. The parent is the step that the call itself names by the provider's id,
else the deepest earlier step *inside that trajectory* whose prompt and response begin this step's prompt, by canonical messages, or
by tokens where there is no text. How the tokens relate is the encoder's business.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from stepwell.warehouse._encode.content import Hashed
from stepwell.warehouse._encode.delta import Base, Delta, as_base, encode
from stepwell.warehouse._encode.drift import Drift, drift_of, goes_on
from stepwell.warehouse._encode.texts import Texts, texts_of
from stepwell.warehouse._link.attempts import Attempt, Finding
from stepwell.warehouse._link.continues import INCOMPLETE, Answer, Answers, Before, is_remembered
from stepwell.warehouse._link.inherit import continued
from stepwell.warehouse._link.parents import Changed, parent_of
from stepwell.warehouse._link.trajectories import Facts, Memories, Memory, Place, most_of
from stepwell.warehouse._parse.draft import Draft

INFERRED = "auto-"
"""How the ids of trajectories begin that nobody named."""

_ANONYMOUS_KEYS = 200_000


@dataclass(slots=True)  # one per step is made, and frozen it would take three times as long
class Linked:
    """A draft with its place and its encoding."""

    draft: Draft
    trajectory_id: str
    facts: Facts
    parent_id: str | None
    turn: int
    delta: Delta
    texts: Texts
    hashed: Hashed | None = None
    """Its prompt."""
    drift: Drift | None = None
    """How its tokens differ from what its parent ended with; None where they go on exactly, or cannot be compared."""
    call_id: str | None = None
    """Shared by the attempts of a call."""
    incomplete: str | None = None
    """Why the prompt lacks its beginning."""
    inherited: int = 0
    """How many of the messages the provider remembered."""
    changed: Changed | None = None
    """What the client rewrote of the conversation that the parent ended."""
    findings: tuple[Finding, ...] = ()
    """What this step tells about earlier ones."""


class Linker:
    """Places steps one after another; what it remembers of trajectories lives in `memories`."""

    def __init__(self, memories: Memories) -> None:
        self._memories = memories
        self._anonymous: OrderedDict[str, str] = OrderedDict()
        self.answers = Answers()
        self.fresh = True
        """Nothing of what is stored was looked at yet."""

    def trajectory_of(self, draft: Draft) -> str:
        """The trajectory's id, found without reading the warehouse."""
        if draft.step.trajectory_id is not None:
            return draft.step.trajectory_id
        before = self._before(draft)
        if before is not None:
            if before.trajectory_id is not None:
                return before.trajectory_id
            draft = continued(draft, before)
        for key in reversed(draft.prompt_keys):
            if (known := self._anonymous.get(key)) is not None:
                return known
        asked = self._anonymous.get(draft.prompt_key or "")
        if asked is not None and asked in self._memories:
            calls = self._memories.get(asked).calls
            if calls.match(draft.prompt_key, attempt_of(draft), draft.asked) is not None:
                return asked
        return f"{INFERRED}{draft.step.call_id or draft.step.step_id}"

    def candidates(self, draft: Draft) -> set[str]:
        """Every trajectory that placing the draft may ask about."""
        asked = self._anonymous.get(draft.prompt_key or "") if draft.step.trajectory_id is None else None
        behind = self.answers.trajectories(draft.step.continues)
        return {self.trajectory_of(draft), *behind, *([asked] if asked is not None else [])}

    def knows(self, key: str) -> bool:
        """Whether memory has an anonymous conversation, or an anonymous request, of this key."""
        return key in self._anonymous

    def learn(self, key: str, trajectory_id: str) -> None:
        """A conversation that an anonymous agent may continue, or a request it may repeat, belongs to this trajectory."""
        self._anonymous[key] = trajectory_id

    @property
    def crowded(self) -> bool:
        """Whether more names are remembered than should be."""
        return len(self._anonymous) > _ANONYMOUS_KEYS or self.answers.crowded

    def shrink(self) -> None:
        """Forget the oldest names of what is too much. Only when all that was placed is committed: it is looked up in the tables then."""
        while len(self._anonymous) > _ANONYMOUS_KEYS:
            self._anonymous.popitem(last=False)
        self.answers.shrink()

    def forget(self) -> None:
        """Start again from what is stored."""
        self._memories.clear()
        self._anonymous.clear()
        self.answers.clear()
        self.fresh = True

    def place(self, draft: Draft) -> Linked:
        """The step's parent, turn and encoding; from now on later steps may continue it."""
        before, own = self._before(draft), len(draft.messages)
        trajectory_id, step_id = self.trajectory_of(draft), draft.step.step_id
        if before is not None:
            draft = continued(draft, before)
        memory = self._memories.get(trajectory_id)
        parent, changed = parent_of(draft, memory, before, self._memories)
        parent_id = parent.step_id if parent else None
        turn = parent.turn + 1 if parent else 0
        incomplete = self._incomplete(before)
        delta = encode(draft, memory.bases, parent_id, memory.longest)
        start = memory.base(delta.base_id)
        drift = self._drift(draft, parent_id, memory, before, delta, start)
        base = as_base(draft, delta, start)
        self._remember(draft, memory, trajectory_id, turn, base)
        if incomplete is not None or (draft.step.untrainable_reason or "").startswith(INCOMPLETE):
            memory.incomplete.add(step_id)
            if before is not None and before.missing is not None:
                self.answers.wait(before.missing, step_id)
        call_id = draft.step.call_id if draft.submitted else _call_id(draft, memory)
        findings = self._findings(draft, memory, parent_id)
        self._memories.grew(trajectory_id, most_of(base, (*delta.own_messages, draft.response, delta.tools or b"")))
        return Linked(
            draft,
            trajectory_id,
            memory.facts,
            parent_id,
            turn,
            delta,
            texts_of(draft, delta),
            base.hashed,
            drift,
            call_id,
            incomplete,
            max(len(draft.messages) - own, 0),
            changed,
            findings,
        )

    def again(self, draft: Draft, trajectory_id: str, parent_id: str | None) -> tuple[Finding, ...]:
        """What a step that is stored already tells about others: its round was interrupted before that was written."""
        return self._findings(draft, self._memories.get(trajectory_id), parent_id)

    def _before(self, draft: Draft) -> Before | None:
        return self.answers.before(draft.step.continues, self._memories) if draft.step.continues else None

    def _drift(
        self,
        draft: Draft,
        parent_id: str | None,
        memory: Memory,
        before: Before | None,
        delta: Delta,
        base: Base | None,
    ) -> Drift | None:
        """The parent may be of another trajectory, where the call names it by the provider's id. `base`: the one of `delta`."""
        if parent_id is None or draft.tokens is None:
            return None
        if base is not None and base.step_id == parent_id and goes_on(delta, base):
            return None
        home = before.answer.trajectory_id if before is not None and before.answer is not None else None
        foreign = self._memories.get(home).bases if home is not None and home in self._memories else ()
        return drift_of(draft, parent_id, (*memory.bases, *foreign), delta)

    def _incomplete(self, before: Before | None) -> str | None:
        """A prompt that goes on from an incomplete one is so itself."""
        if before is None:
            return None
        if before.missing is not None:
            kind, _, id_ = before.missing.partition(":")
            return f"{INCOMPLETE}what {kind} {id_} holds is not recorded"
        if before.answer is None or before.answer.trajectory_id not in self._memories:
            return None
        step_id = before.answer.step_id
        lacking = step_id in self._memories.get(before.answer.trajectory_id).incomplete
        return f"{INCOMPLETE}so is that of step {step_id}, which it continues" if lacking else None

    def _remember(self, draft: Draft, memory: Memory, trajectory_id: str, turn: int, base: Base) -> None:
        step, keys = draft.step, draft.keys
        remembered = is_remembered(step.dialect, step.response_id, step.continues)
        names = (keys.conversation, keys.rest_conversation)
        tail = keys.tail if remembered else None
        memory.remember(Place(step.step_id, turn), names, base, said=remembered, tail=tail)
        if remembered and step.response_id is not None:
            self.answers.learn(f"response:{step.response_id}", Answer(step.step_id, trajectory_id))
        if step.continues is not None and step.continues.startswith("conversation:"):
            self.answers.learn(step.continues, Answer(step.step_id, trajectory_id))
        if step.trajectory_id is None:
            for key in (keys.conversation, draft.prompt_key):
                if key is not None:
                    self.learn(key, trajectory_id)

    def _findings(self, draft: Draft, memory: Memory, parent_id: str | None) -> tuple[Finding, ...]:
        step_id = draft.step.step_id
        memory.calls.continue_from(parent_id, step_id)
        late = [Finding("parent.late", child, step_id) for child in self.answers.arrived(draft.step.response_id)]
        again = memory.calls.findings((step_id, parent_id)) if memory.calls.tried_again else ()
        return (*late, *again)


def attempt_of(draft: Draft) -> Attempt:
    """The exchange that a step is a choice of."""
    id_ = draft.step.call_id or draft.step.step_id
    return Attempt(id_, draft.producer, draft.sequence, draft.retry, draft.failed)


def _call_id(draft: Draft, memory: Memory) -> str:
    """The id that the attempts of the call share."""
    attempt, key = attempt_of(draft), draft.prompt_key
    call = memory.calls.match(key, attempt, draft.asked)
    return memory.calls.add(key, attempt, draft.step.step_id, call).call_id
