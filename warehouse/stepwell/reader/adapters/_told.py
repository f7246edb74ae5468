"""Rows of messages from what people said of steps: corrections for SFT, preferences for DPO. TRL and its kin take them as they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import orjson

from stepwell.errors import InvalidRecord
from stepwell.reader.adapters._messages import NoChat, chat_message, chat_messages, has_reasoning, without_reasoning

if TYPE_CHECKING:
    from stepwell.warehouse import Warehouse

_FOUND = """
WITH s AS (SELECT step_id, response_id FROM steps WHERE coalesce(split, 'train') = 'train' AND ({where}
)), f AS (SELECT * FROM feedback WHERE kind IN ({kinds}))
SELECT f.kind, f.text AS rejected_id, f.payload, f.event_id, s.step_id FROM f
  JOIN s ON f.target_kind = 'step' AND f.target_id = s.step_id
UNION ALL
SELECT f.kind, f.text, f.payload, f.event_id, s.step_id FROM f
  JOIN s ON f.target_kind = 'response' AND f.target_id = s.response_id
ORDER BY step_id, event_id
"""


Reasoning = Literal["paired", "keep", "drop"]


@dataclass(frozen=True, slots=True)
class ToldRows:
    """Rows for `datasets.Dataset.from_list`, in the order of step and feedback."""

    rows: list[dict[str, Any]]
    skipped: dict[str, int]
    """What was said and gave no row, by reason."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a step saw and said, as a chat template takes it."""

    prompt: list[dict[str, Any]]
    answer: dict[str, Any]
    tools: list[dict[str, Any]] | None


def sft_rows(warehouse: Warehouse, where: str = "true", at: str | int | None = None) -> ToldRows:
    """`prompt` and `completion` (and `tools`) of each corrected step: what it saw, and what it should have said.

    `where`: a condition over the view `steps`, at a version of the warehouse. Steps of the eval split are left out.
    `SFTTrainer` trains on completions only, as such rows want, by default. A completion has the reasoning that the correction gives, never
    that of the answer it corrects, which led elsewhere.

    Raises:
        StepwellError: the condition is no valid SQL.
    """
    return _collected(warehouse, ("correction",), where, at, _completion)


def dpo_rows(
    warehouse: Warehouse,
    where: str = "true",
    at: str | int | None = None,
    *,
    corrections: bool = True,
    reasoning: Reasoning = "paired",
) -> ToldRows:
    """`prompt`, `chosen` and `rejected` (and `tools`): of each preference for one step over another of the same prompt, and, with
    `corrections`, of each corrected step, which is then what was rejected.

    `where`: of the step that was preferred or corrected; see `sft_rows`.

    `reasoning` of the two answers, as `reasoning_content`: `"paired"`: both have theirs, or neither is shown any, since of an answer that
    thinks and one that does not the difference is first of all that; `"keep"`: each has what it said; `"drop"`: none. That of earlier
    turns is in the prompt as it was; a chat template says what becomes of it.

    Raises:
        InvalidRecord: there is no such way with reasoning.
        StepwellError: the condition is no valid SQL.
    """
    if reasoning not in get_args(Reasoning):
        raise InvalidRecord("reasoning", f"is {reasoning!r}; must be one of {', '.join(get_args(Reasoning))}")
    kinds = ("preference", *(["correction"] if corrections else []))
    return _collected(warehouse, kinds, where, at, partial(_pair, reasoning=reasoning))


def _completion(event: dict[str, Any], asked: dict[str, _Asked | str]) -> dict[str, Any]:
    step = _step(asked, event["step_id"])
    return _row(step, completion=[_corrected(event)])


def _pair(event: dict[str, Any], asked: dict[str, _Asked | str], *, reasoning: Reasoning) -> dict[str, Any]:
    step = _step(asked, event["step_id"])
    if event["kind"] == "correction":
        chosen, rejected = _corrected(event), step.answer
    else:
        other = _step(asked, event["rejected_id"])
        if (other.prompt, other.tools) != (step.prompt, step.tools):
            raise NoChat("two steps of different prompts")
        chosen, rejected = step.answer, other.answer
    if reasoning == "drop" or (reasoning == "paired" and not (has_reasoning(chosen) and has_reasoning(rejected))):
        chosen, rejected = without_reasoning(chosen), without_reasoning(rejected)
    if chosen == rejected:
        raise NoChat("two equal answers")
    return _row(step, chosen=[chosen], rejected=[rejected])


def _row(step: _Asked, **answers: list[dict[str, Any]]) -> dict[str, Any]:
    return {"prompt": step.prompt, **answers, **({} if step.tools is None else {"tools": step.tools})}


def _corrected(event: dict[str, Any]) -> dict[str, Any]:
    return chat_message(orjson.loads(event["payload"])["correction"])


def _step(asked: dict[str, _Asked | str], step_id: str) -> _Asked:
    found = asked.get(step_id, "a step that is not there")
    if isinstance(found, str):
        raise NoChat(found)
    return found


def _collected(
    warehouse: Warehouse,
    kinds: Iterable[str],
    where: str,
    at: str | int | None,
    made: Callable[[dict[str, Any], dict[str, _Asked | str]], dict[str, Any]],
) -> ToldRows:
    version = warehouse.version(at)
    listed = ", ".join(f"'{kind}'" for kind in kinds)
    events = warehouse.query(_FOUND.format(where=where, kinds=listed), at=version).to_pylist()
    names = {event[name] for event in events for name in ("step_id", "rejected_id") if event[name] is not None}
    asked = _asked(warehouse, sorted(names), version)
    rows, skipped = [], Counter[str]()
    for event in events:
        try:
            rows.append(made(event, asked))
        except NoChat as reason:
            skipped[str(reason)] += 1
    return ToldRows(rows, dict(skipped))


def _asked(warehouse: Warehouse, names: list[str], at: int) -> dict[str, _Asked | str]:
    """By step; in place of what cannot be rendered, the reason."""
    found: dict[str, _Asked | str] = {}
    columns = ("step_id", "messages", "response", "tools", "split")
    for step in warehouse.whole(names, columns, at=at).to_pylist() if names else []:
        if step["split"] == "eval":
            found[step["step_id"]] = "a step of the eval split"
        elif step["messages"] is None or step["response"] is None:
            found[step["step_id"]] = "a step without text"
        else:
            try:
                found[step["step_id"]] = _Asked(
                    chat_messages(orjson.loads(step["messages"])),
                    chat_message(orjson.loads(step["response"])),
                    orjson.loads(step["tools"]) if step["tools"] else None,
                )
            except NoChat as reason:
                found[step["step_id"]] = str(reason)
    return found
