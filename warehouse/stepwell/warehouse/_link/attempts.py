"""Attempts of one call: which requests are the same one tried again, and whose answer was used.

A client's library asks again after a time-out or an error; each attempt is a step of its own, and all have the `call_id` of the
first. Only a word of the library (`x-stainless-retry-count`) or an attempt that failed makes the same request a retry; otherwise
it is a sibling, one of several samples. The attempt that was used is the one whose answer a later request repeats; until one
does, the last that was answered. Findings only ever add up, so their order, and finding them twice, changes nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

_KEYS = 512
"""Different requests of a trajectory that may be tried again; a retry follows soon."""

_SIBLINGS = 64
"""Calls of the same request among which a retry is looked for."""


@dataclass(slots=True)
class Attempt:
    """One exchange: all choices of its answer."""

    id: str
    producer: str
    ended: int
    """The number of the record of its end."""
    retry: int
    failed: bool
    steps: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Call:
    """Attempts in the order in which they came to ingest."""

    call_id: str
    attempts: list[Attempt]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something learned about a step that is stored already: it becomes an event."""

    kind: Literal["attempt.superseded", "attempt.used", "parent.late"]
    step_id: str
    by: str
    """The step that was used instead; the later one that repeats it; the parent."""

    @property
    def event_id(self) -> str:
        """The same finding is the same event, also after a restart."""
        return f"{self.step_id}.{self.kind}"


@dataclass(slots=True)
class Calls:
    """The calls of one trajectory."""

    by_key: OrderedDict[str, list[Call]] = field(default_factory=OrderedDict)
    tried_again: dict[str, Call] = field(default_factory=dict)
    """By step, the calls of several attempts."""
    continued: dict[str, str] = field(default_factory=dict)
    """Steps that a later one continues, and which one did first."""

    def match(self, key: str | None, attempt: Attempt, asked: int) -> Call | None:
        """The call that `attempt`, whose request is record number `asked`, is one of; None when it is a call of its own."""
        calls = self.by_key.get(key or "", [])
        same = next((call for call in calls if any(known.id == attempt.id for known in call.attempts)), None)
        if same is not None:
            return same  # another choice of its answer
        failed = [call for call in calls if all(known.failed for known in call.attempts)]
        if attempt.retry:  # a library counts up: what has that number already was tried by another call
            before = [call for call in calls if all(known.retry < attempt.retry for known in call.attempts)]
            return next(reversed([call for call in before if call in failed] or before), None)
        for call in reversed(failed):
            if all(_follows(known, attempt.producer, asked) for known in call.attempts):
                return call
        # A first attempt may end after the second, when its time-out was the client's and not the connection's.
        late = [call for call in calls if attempt.failed and call.attempts[0].retry > 0]
        return late[0] if late else None

    def add(self, key: str | None, attempt: Attempt, step_id: str, call: Call | None) -> Call:
        """Remember a step of `attempt` in the call that `match` gave, or in a new one."""
        if call is None:
            call = Call(attempt.id, [])
            if key is not None:
                calls = self.by_key.setdefault(key, [])
                calls.append(call)
                del calls[:-_SIBLINGS]
                self.by_key.move_to_end(key)
                if len(self.by_key) > _KEYS:
                    self.by_key.popitem(last=False)
        known = next((known for known in call.attempts if known.id == attempt.id), None)
        if known is None:
            call.attempts.append(known := attempt)
        elif not attempt.failed:
            known.failed = False
        known.steps.append(step_id)
        if len(call.attempts) > 1:
            self.tried_again.update((step, call) for one in call.attempts for step in one.steps)
        return call

    def recall(self, key: str, call_id: str | None, attempt: Attempt, step_id: str) -> None:
        """Remember a step that is stored, in the call that it was found to be of."""
        known = (call for call in self.by_key.get(key, []) if call.call_id == call_id)
        call = self.add(key, attempt, step_id, next(known, None))
        call.call_id = call_id or call.call_id

    def continue_from(self, parent_id: str | None, step_id: str) -> None:
        """A later step repeats the answer of `parent_id`."""
        if parent_id is not None:
            self.continued.setdefault(parent_id, step_id)

    def findings(self, step_ids: Iterable[str | None]) -> list[Finding]:
        """What is known now about the attempts of the calls that these steps are of."""
        calls = {id(call): call for step in step_ids if step and (call := self.tried_again.get(step))}
        return [finding for call in calls.values() for finding in _resolved(call, self.continued)]


def _follows(before: Attempt, producer: str, asked: int) -> bool:
    """Whether a request was made after an attempt had ended. One producer's numbers tell; clocks are not asked."""
    return before.producer != producer or asked > before.ended


def _resolved(call: Call, continued: Mapping[str, str]) -> list[Finding]:
    repeated = [one for one in call.attempts if any(step in continued for step in one.steps)]
    answered = repeated or [one for one in call.attempts if not one.failed][-1:]
    if not answered:
        return []
    used = answered[-1]
    found = [Finding("attempt.used", step, _repeating(one, continued)) for one in repeated for step in one.steps]
    winner = next((step for step in used.steps if step in continued), used.steps[0])
    lost = [one for one in call.attempts if all(one is not other for other in answered)]
    return found + [Finding("attempt.superseded", step, winner) for one in lost for step in one.steps]


def _repeating(attempt: Attempt, continued: Mapping[str, str]) -> str:
    """The step that goes on from one of the attempt's choices."""
    return next(continued[step] for step in attempt.steps if step in continued)
