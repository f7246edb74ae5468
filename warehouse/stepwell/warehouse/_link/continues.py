"""Conversations that the provider remembers: a call names one by its id and sends only what is new.

The id is that of an answer (`response:<id>`), of a warm-up that was no step, or of a conversation object (`conversation:<id>`), which
stands for the last step that named it. What a step saw is then what that step saw and answered, with its own messages after it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from stepwell.warehouse._link.trajectories import Memories, Said
from stepwell.warehouse._parse.keys import Keys
from stepwell.warehouse._parse.warmed import Warmed

INCOMPLETE = "the prompt is incomplete: "
"""How the reason of a step begins whose prompt lacks its beginning."""

_ANSWERS = 200_000
_CONTEXTS = 256
_WAITING = 50_000
_FORKS = 64
"""Steps that wait for one answer, the first forgotten: an answer that was never captured may be continued any number of times. What
is lost is a parent, not a prompt: that stays incomplete anyway."""
_CHAIN = 64
"""Warm-ups that continue each other; beyond that somebody made a circle."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A step whose answer may be continued by an id."""

    step_id: str
    trajectory_id: str


@dataclass(frozen=True, slots=True)
class Before:
    """What was said before a step's own messages."""

    messages: tuple[bytes, ...] = ()
    tools: bytes = b"null"
    answer: Answer | None = None
    """The step that it ends with, or that came last before a warm-up."""
    trajectory_id: str | None = None
    tail: Keys | None = None
    """The keys of `messages`, where they are that step's own."""
    missing: str | None = None
    """What is not known: `response:<id>` or `conversation:<id>`."""


class Answers:
    """What can be continued by its id, the oldest forgotten: it is then read from the warehouse again."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Answer] = OrderedDict()
        self._warmed: OrderedDict[str, Warmed] = OrderedDict()
        self._waiting: OrderedDict[str, list[str]] = OrderedDict()
        self.pinned: dict[str, Said] = {}
        """By step, whole conversations read for this round."""

    def __contains__(self, name: str) -> bool:
        return name in self._known or name in self._warmed

    def learn(self, name: str, answer: Answer) -> None:
        """`name` (`response:<id>` or `conversation:<id>`) now stands for this step."""
        self._known[name] = answer
        self._known.move_to_end(name)

    def warm(self, warmed: Warmed) -> None:
        """Remember a conversation that was no step."""
        self._warmed[f"response:{warmed.response_id}"] = warmed

    def wait(self, name: str, step_id: str) -> None:
        """A step continues what is not known yet."""
        waiting = self._waiting.setdefault(name, [])
        waiting.append(step_id)
        del waiting[:-_FORKS]
        if len(self._waiting) > _WAITING:
            self._waiting.popitem(last=False)

    def arrived(self, response_id: str | None) -> list[str]:
        """The steps that waited for this response, the latest of them where they are many."""
        return self._waiting.pop(f"response:{response_id}", []) if response_id else []

    def names(self, continues: str | None) -> Iterator[str]:
        """`continues`, and what the warm-ups behind it continue."""
        for _ in range(_CHAIN):
            if continues is None:
                return
            yield continues
            warmed = self._warmed.get(continues)
            continues = warmed.continues if warmed is not None and continues not in self._known else None

    def trajectories(self, continues: str | None) -> set[str]:
        """The trajectories that hold what `continues` names."""
        names = list(self.names(continues))
        known = (self._known.get(name) for name in names)
        warmed = (self._warmed.get(name) for name in names)
        return {one.trajectory_id for one in (*known, *warmed) if one is not None and one.trajectory_id is not None}

    def steps(self, continues: str | None) -> list[Answer]:
        """The steps that `continues` names, behind whatever warm-ups."""
        return [known for name in self.names(continues) if (known := self._known.get(name)) is not None]

    def before(self, continues: str, memories: Memories) -> Before:
        """What was said before, as far as it is known."""
        warmed: list[Warmed] = []
        name: str | None = None
        for name in self.names(continues):
            if name in self._known:
                break
            if (found := self._warmed.get(name)) is not None:
                warmed.append(found)
        answer = self._known.get(name or "")
        said = self._conversation(answer, memories) if answer is not None else None
        whole = said is not None or (answer is None and bool(warmed) and warmed[-1].continues is None)
        last = warmed[-1] if warmed else None
        return Before(
            messages=(*(said.messages if said else ()), *(text for one in reversed(warmed) for text in one.messages)),
            tools=next((one.tools for one in warmed if one.tools != b"null"), b"null"),
            answer=answer,
            trajectory_id=answer.trajectory_id if answer is not None else last.trajectory_id if last else None,
            tail=said.tail if said is not None and not warmed else None,
            missing=None if whole else name,
        )

    def _conversation(self, answer: Answer, memories: Memories) -> Said | None:
        if (pinned := self.pinned.get(answer.step_id)) is not None:
            return pinned
        if answer.trajectory_id not in memories:
            return None
        return memories.get(answer.trajectory_id).conversation(answer.step_id)

    @property
    def crowded(self) -> bool:
        """Whether more is remembered than should be."""
        return len(self._known) > _ANSWERS

    def shrink(self) -> None:
        """Forget what is too much. Only when all of it is committed: what comes later reads it from the tables."""
        self.pinned.clear()
        while len(self._known) > _ANSWERS:
            self._known.popitem(last=False)
        while len(self._warmed) > _CONTEXTS:
            self._warmed.popitem(last=False)

    def clear(self) -> None:
        """Start again from what is stored."""
        for held in (self._known, self._warmed, self._waiting, self.pinned):
            held.clear()


def is_remembered(dialect: str | None, response_id: str | None, continues: str | None) -> bool:
    """Whether a later call may name this step: only one API remembers its answers, and who submits steps may say that his does."""
    return continues is not None or (response_id is not None and dialect in (None, "openai.responses"))
