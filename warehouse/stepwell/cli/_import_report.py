"""What became of each imported exchange, and of all of them: the lines of `--json` and the summary.

Everything said here has gone through the `[redact]` rules, as what is stored has: a dry run shows what would be kept, no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from stepwell.exchange import Found, NoStep, Unparseable, parse
from stepwell.sdk.records import Step
from stepwell.warehouse import RedactionFailed, Redactor, redacted_quarantine, redacted_step

_NOT_A_GENERATION = "not a generation"

_IN_BLOCKS = frozenset({"anthropic.messages", "openai.responses", "bedrock.invoke"})
"""Dialects whose reasoning comes in blocks, each a text of its own; elsewhere its parts are pieces of one text."""

Line = dict[str, Any]


@dataclass(slots=True)
class Report:
    """Counts of an import. `redactor`: the rules for what is said of each exchange."""

    redactor: Redactor = field(default_factory=Redactor)
    files: int = 0
    unreadable: int = 0
    exchanges: int = 0
    steps: int = 0
    others: int = 0
    """Exchanges that are no step: other calls, and generations that a policy has no part in."""
    quarantined: int = 0

    def take(self, found: Found) -> Line:
        """Count an exchange; what it comes to, as `--json` prints it."""
        self.exchanges += 1
        if not found.generation:
            self.others += 1
            return _line(found, reason=_NOT_A_GENERATION)
        try:
            steps = [self._as_stored(step) for step in parse(found.exchange)]
        except NoStep as error:
            self.others += 1
            return _line(found, reason=self.redacted(str(error)))
        except (Unparseable, RedactionFailed) as error:
            self.quarantined += 1
            return _line(found, reason=self.redacted(str(error)))
        except Exception as error:  # noqa: BLE001 — the boundary of parsing, as in ingest, which will say the same
            self.quarantined += 1
            return _line(found, reason=self.redacted(f"parsing failed: {type(error).__name__}: {error}"))
        self.steps += len(steps)
        return _line(found) | _of_steps(steps)

    def redacted(self, reason: str) -> str:
        """A reason as it may be said: its words may be the exchange's own."""
        sides = ("request_head", "request_body", "response_head", "response_body")
        row = redacted_quarantine(self.redactor, {"reason": reason, **dict.fromkeys(sides)}, failed=False)
        return str(row["reason"])

    def _as_stored(self, step: Step) -> Step:
        made, _, response = redacted_step(self.redactor, step, step.messages, step.response)
        return made.model_copy(update={"response": response})

    def __str__(self) -> str:
        parts = [
            f"{_count(self.files, 'file')}: {_count(self.exchanges, 'exchange')}, {_count(self.steps, 'step')}",
            f"{self.others} without a step",
            f"{self.quarantined} quarantined",
        ]
        return ", ".join(parts) + (f"; {_count(self.unreadable, 'file')} not read whole" if self.unreadable else "")


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _line(found: Found, reason: str | None = None) -> Line:
    return {
        "id": found.name,
        "dialect": found.exchange.dialect or None,
        "step": False,
        "status": None,
        "model": None,
        "choices": [],
        "usage": None,
        "response_id": None,
        "trainable": False,
        "reason": reason,
    }


def _of_steps(steps: Sequence[Step]) -> Line:
    """Of one call: what its steps share is the first one's; it may be trained on when all of them may."""
    first = steps[0]
    return {
        "step": True,
        "status": next((step.status for step in steps if step.status != "ok"), "ok"),
        "model": first.model or first.model_asked,
        "choices": [_choice(step) for step in steps if _answered(step)],
        "usage": first.usage,
        "response_id": first.response_id,
        "trainable": all(step.trainable for step in steps),
        "reason": next((step.untrainable_reason for step in steps if not step.trainable), None),
    }


def _answered(step: Step) -> bool:
    """A call that failed makes a step without an answer."""
    return bool(step.finish_reason or (step.response and step.response.get("content")))


def _choice(step: Step) -> Line:
    parts = step.response["content"] if step.response else []
    calls = [
        {"id": part.get("id") or None, "name": part["name"], "arguments": part["arguments"]}
        for part in parts
        if part["type"] == "tool_call"
    ]
    return {
        "text": _joined(parts, "text") or "",
        "reasoning": _joined(parts, "reasoning", "\n" if step.dialect in _IN_BLOCKS else ""),
        "refusal": _joined(parts, "refusal"),
        "tool_calls": calls,
        "finish_reason": step.finish_reason,
    }


def _joined(parts: Sequence[dict[str, Any]], kind: str, between: str = "") -> str | None:
    return between.join(part["text"] for part in parts if part["type"] == kind and part["text"]) or None
