"""What is said in the generated traffic, before any API words it: a coding agent in its twentieth turn. The same in every run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import orjson

Json = dict[str, Any]

MODEL = "bench-1"
PROMPT_TOKENS = 12_000
_SAMPLE = (
    "the test fails because session_id is None when the pool closes → so def retry(self, call): return await call() and then "
    'self._lock.release() in src/client/pool.py:118 assert reply.status == 200, "naïve" café — we should keep the order of the '
    "parts \\n and join once at the end rather than adding strings { } [ ] < > # comment import asyncio from typing import Any"
)
_WORDS = _SAMPLE.split(" ")


@dataclass(frozen=True, slots=True)
class Turn:
    """What the assistant said, the one tool it called, and what that gave."""

    text: str
    id: str
    name: str
    arguments: Json
    result: str


def _text(chance: random.Random, size: int) -> str:
    words: list[str] = []
    while size > 0:
        word = chance.choice(_WORDS)
        words.append(word + ("\n" if chance.random() < 0.08 else " "))
        size -= len(words[-1])
    return "".join(words)


def _turn(chance: random.Random, number: int) -> Turn:
    if number % 3:
        name, arguments = "read_file", {"path": f"src/client/part_{number}.py", "offset": number * 40, "limit": 200}
    else:
        name, arguments = (
            "edit_file",
            {"path": "src/client/pool.py", "old": _text(chance, 300), "new": _text(chance, 400)},
        )
    return Turn(_text(chance, 250), f"call_{chance.getrandbits(96):024x}", name, arguments, _text(chance, 1500))


_chance = random.Random(20260401)
SYSTEM = _text(_chance, 8 << 10)
TASK = _text(_chance, 1200)
TURNS = [_turn(_chance, number) for number in range(20)]
TOOLS: list[Json] = [
    {
        "name": name,
        "description": _text(_chance, 400),
        "parameters": {
            "type": "object",
            "properties": {
                field: {"type": "string", "description": _text(_chance, 80)}
                for field in ("path", "old", "new", "pattern")
            },
            "required": ["path"],
        },
    }
    for name in ("read_file", "edit_file", "search", "list_files", "run_tests", "fetch", "ask", "finish")
]

TEXTS = [_chance.choice(_WORDS) + " " for _ in range(760)]
"""The answer's text, as it streams."""
PLAIN = "".join(TEXTS)
ARGUMENTS = orjson.dumps({"path": "src/client/pool.py", "old": _text(_chance, 60), "new": _text(_chance, 80)}).decode()
"""Of the call it ends with."""
PIECES = [ARGUMENTS[at : at + 5] for at in range(0, len(ARGUMENTS), 5)]
"""The same, as they stream."""
CALL = Turn(PLAIN, "call_0a1b2c3d4e5f60718293a4b5", "edit_file", orjson.loads(ARGUMENTS), "")

PROMPT = "\n".join(
    [SYSTEM, TASK, *(f"{turn.text}\n{orjson.dumps(turn.arguments).decode()}\n{turn.result}" for turn in TURNS)]
)
"""The conversation as one text, for the APIs that know no messages."""
PROMPT_IDS = [_chance.randrange(150_000) for _ in range(PROMPT_TOKENS)]


def token(place: int) -> tuple[int, float]:
    """An id and its logprob."""
    return 1000 + place * 7919 % 140_000, -(place % 97) / 61


def dumps(value: object) -> bytes:
    return orjson.dumps(value)


def event(value: object, name: str = "", end: bytes = b"\n\n") -> bytes:
    """One server-sent event."""
    return (f"event: {name}\n".encode() if name else b"") + b"data: " + orjson.dumps(value) + end
