"""What the demo's model says: it works through the tasks of `DEMO_TASKS` with the agent's tools.

Everything is a function of the conversation and of the request's `seed`: the same rollout always reads the same, and
rollouts of one task differ in their words, their number of turns (3 to 5 calls) and whether they are right. Of any four
consecutive seeds one is wrong.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from typing import Literal

from stepwell.testing._demo_tasks import DEMO_TASKS
from stepwell.testing._script import ChatCall, Reply, ToolCall

Manner = Literal["careful", "slip", "together", "stumble"]
_MANNERS: tuple[Manner, ...] = ("careful", "slip", "together", "stumble")


@dataclass(frozen=True, slots=True)
class _Solution:
    """What to look up, what to compute, and the mistake that somebody in a hurry makes."""

    keys: tuple[str, ...]
    right: tuple[str, ...]
    wrong: tuple[str, ...]
    unit: str


_SOLUTIONS = (
    _Solution(("honey price", "jam price"), ("12 * 8 + 9 * 6",), ("12 * 8 + 9",), "€"),
    _Solution(("bus seats", "bus price"), ("(134 + 11) / 49", "3 * 310"), ("(134 + 11) / 49", "2 * 310"), "€"),
    _Solution(("paint coverage", "paint price"), ("6 * 15 * 2 / 40", "5 * 38"), ("6 * 15 / 40", "3 * 38"), "€"),
    _Solution(("night train speed",), ("(7 * 60 + 20 - 35) / 60 * 120",), ("(7 * 60 + 20) / 60 * 120",), "km"),
)

_LOOK_UP = (
    "First I need the facts: {what}. 🔎",
    "The question leaves out {what}, so I look that up before anything else.",
    "Überlegen wir: without {what} there is nothing to compute.",
    "Let me fetch {what} → then the rest is arithmetic.",
)
_COMPUTE = (
    "The look-up says {found}. So the next thing to work out is {expression}.",
    "{found} – good. I let the calculator do {expression} rather than trust my head 🧮.",
    "With “{found}” in hand: {expression} ≈ ?",
    "Naïvely I would guess, but {expression} is quickly computed, given {found}.",
)
_ANSWER = (
    "That settles it ✅: {value} {unit} in all.\nAnswer: {value}",
    "So the total comes to {value} {unit} (合计). 😀\nAnswer: {value}",
    "The calculator gives {value}, and nothing else is left to add: {value} {unit}.\nAnswer: {value}",
    "Voilà – {value} {unit}.\nAnswer: {value}",
)


def demo_script(call: ChatCall) -> Reply:
    """Answer the example agent. A conversation about none of the demo's tasks gets a polite refusal."""
    asked = " ".join(str(message.get("content")) for message in call.messages if message.get("role") == "user")
    index = next((i for i, task in enumerate(DEMO_TASKS) if task.question in asked), None)
    if index is None:
        return Reply(content="I have learnt the demo's four tasks only, and this is none of them 🙂.\nAnswer: unknown")
    solution = _SOLUTIONS[index]
    rounds = _rounds(solution, _MANNERS[(call.seed + index) % len(_MANNERS)])
    words = random.Random(f"{DEMO_TASKS[index].prompt_id}/{call.seed}/{call.turn}")  # noqa: S311 - variety, not secrets
    found = next((str(m.get("content")) for m in reversed(call.messages) if m.get("role") == "tool"), "")
    if call.turn >= len(rounds):
        return Reply(content=words.choice(_ANSWER).format(value=found, unit=solution.unit))
    tool, inputs = rounds[call.turn]
    if tool == "lookup":
        text = words.choice(_LOOK_UP).format(what=" and ".join(f"the {key}" for key in inputs))
        return Reply(content=text, tool_calls=[_tool_call(words, tool, "key", key) for key in inputs])
    text = words.choice(_COMPUTE).format(found=found, expression=inputs[0])
    return Reply(content=text, tool_calls=[_tool_call(words, tool, "expression", inputs[0])])


def _rounds(solution: _Solution, manner: Manner) -> list[tuple[str, tuple[str, ...]]]:
    """The tool calls of each turn before the answer: (tool, its inputs)."""
    expressions = solution.wrong if manner == "slip" else solution.right
    rounds: list[tuple[str, tuple[str, ...]]] = []
    if manner == "careful":
        rounds += [("lookup", (key,)) for key in solution.keys]
    else:
        rounds.append(("lookup", solution.keys))
    if manner == "stumble":
        # A parenthesis too few: the tool answers with an error, and the next turn mends it.
        rounds.append(("calculator", ("(" + expressions[0],)))
    return rounds + [("calculator", (expression,)) for expression in expressions]


def _tool_call(words: random.Random, tool: str, argument: str, value: str) -> ToolCall:
    # Models differ in how they space JSON; what was sampled has to survive as it is.
    separators = words.choice([(", ", ": "), (",", ":")])
    arguments = json.dumps({argument: value}, ensure_ascii=False, separators=separators)
    return ToolCall(tool, arguments, f"call_{words.getrandbits(64):016x}")
