"""A prompt group whose trajectories have everything that a view of trajectories must show, made up for the tests."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.dashboard.house import House

BEGUN = datetime(2026, 3, 14, 9, 0, 0, tzinfo=UTC)
MAIN, OTHER, GROUP = "job/alpha", "job/beta", "fix-the-build"
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
IMAGE = f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}"
LONG_PROMPT, LONG_RESPONSE = 24_768, 8_000
"""Of the step `long.0`: 32,768 tokens in all."""

SYSTEM = {"role": "system", "content": "You repair builds."}
TASK = {"role": "user", "content": "The build fails. Repair it."}
CALL = {
    "role": "assistant",
    "content": [
        {"type": "reasoning", "text": "First look at the log, then decide."},
        {"type": "text", "text": "I read the log."},
        {"type": "tool_call", "id": "t1", "name": "read_file", "arguments": '{"path": "build.log", "lines": 20}'},
    ],
}
RESULT = {
    "role": "tool",
    "content": [
        {"type": "tool_result", "id": "t1", "content": [{"type": "text", "text": "error: missing header zlib.h"}]}
    ],
}
PICTURE = {
    "role": "user",
    "content": [
        {"type": "text", "text": "Here is a picture of it."},
        {"type": "image_url", "image_url": {"url": IMAGE}},
    ],
}
NOW = {"role": "user", "content": "And now?"}
FIXED = {"role": "assistant", "content": "Install zlib1g-dev."}
TOOLS = [
    {
        "type": "function",
        "function": {"name": "read_file", "description": "Read a file.", "parameters": {"type": "object"}},
    }
]
WORDS = (" the", "cat", " sat", " on", "\t", "mat\n", " a", "b", "", "<b>x</b>", "\u202e", "é", "{", "}", "日本")
"""What ids say: with spaces and line ends, nothing at all, markup, an override of direction, wide letters."""
TOLD = [*range(15), *range(15)]
"""Prompt (20) and answer (10) of the step `told.0`."""


def fill(house: House) -> None:
    """Two trajectories of a group: a conversation with a retry, two branches, a sub-agent and drift; one plain. Rewards 1 and 0."""
    house.put("/steps", *_main(), *_sub_agent(), _other())
    house.commit()
    for number, (trajectory, reward) in enumerate([(MAIN, 1), (OTHER, 0)]):
        house.put("/trajectories", {"trajectory_id": trajectory, "state": "completed"})
        house.put(
            "/feedback",
            {
                "feedback_id": f"reward-{number}",
                "trajectory_id": trajectory,
                "reward": reward,
                "name": "tests_pass",
                "author": "ci",
            },
        )
    house.put(
        "/feedback",
        {"feedback_id": "note", "step_id": "alpha.1", "label": "neat", "comment": "Short and right.", "author": "ann"},
    )
    house.commit()


def told(house: House) -> list[str]:
    """The step `told.0` of `job/told`, for whose ids there is a tokenizer beside the spool: what each id of `TOLD` says."""
    folder = house.folder / "tokenizers"
    folder.mkdir()
    (folder / "told.json").write_text(json.dumps(WORDS), encoding="utf-8")
    house.put("/steps", _step("told.0", "job/told", 0, (TOLD[:20], TOLD[20:]), fingerprint="told"))
    house.commit()
    return [WORDS[one] for one in TOLD]


def long_step(house: House) -> None:
    """The step `long.0` of trajectory `job/long`, whose ids and logprobs are a rule: 32,768 tokens."""
    ids = list(range(100, 100 + LONG_PROMPT)), [7 + number % 50 for number in range(LONG_RESPONSE)]
    step = _step("long.0", "job/long", 0, ids, logprobs=[-(number % 40) / 8 for number in range(LONG_RESPONSE)])
    house.put("/steps", step)
    house.commit()


def captured(house: House) -> None:
    """Trajectory `job/captured`: a call that failed (kept raw), its retry that the client used, and the call after it."""
    begun = int(BEGUN.timestamp()) * 10**9
    hello = [{"role": "user", "content": "Hello"}]
    further = [*hello, {"role": "assistant", "content": "Hi."}, {"role": "user", "content": "Go on"}]
    calls = [
        ("c0", hello, 500, '{"error": {"message": "boom"}}'),
        ("c1", hello, 200, _answer("r1")),
        ("c2", further, 200, _answer("r2")),
    ]
    house.put(
        "/exchanges",
        *(
            {
                "exchange_id": exchange,
                "url": "https://api.example.com/v1/chat/completions",
                "request_headers": [["content-type", "application/json"], ["authorization", "Bearer of-nobody"]],
                "request_body": json.dumps({"model": "gpt-4o", "messages": messages}),
                "status": status,
                "response_headers": [["content-type", "application/json"]],
                "response_body": body,
                "started_ns": begun + number * 10**10,
                "first_byte_ns": begun + number * 10**10 + 10**9,
                "finished_ns": begun + number * 10**10 + 4 * 10**9,
                "trajectory_id": "job/captured",
            }
            for number, (exchange, messages, status, body) in enumerate(calls)
        ),
    )
    house.commit()


def _answer(response_id: str) -> str:
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi."}}
    usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
    return json.dumps(
        {"id": response_id, "model": "gpt-4o", "object": "chat.completion", "choices": [choice], "usage": usage}
    )


def many(house: House, number: int) -> None:
    """So many open trajectories `load/0000`, … of one step each, in groups of ten."""
    steps = [
        _step(
            f"load.{one:04d}",
            f"load/{one:04d}",
            100 + one,
            ([1, 2, 3], [4]),
            group_id=f"load-{one // 10}",
            prompt_id=None,
        )
        for one in range(number)
    ]
    house.put("/steps", *steps)
    house.commit()


def _main() -> list[dict[str, Any]]:
    asked = [SYSTEM, TASK]
    looked = [*asked, CALL, RESULT]
    behind = [*looked, FIXED]
    begin, answer = list(range(1, 13)), list(range(50, 58))
    again = [*begin, *answer, *range(20, 26)]
    return [
        _step("alpha.0", MAIN, 0, (begin, answer), messages=asked, response=CALL, tools=TOOLS),
        _step("alpha.1", MAIN, 10, (again, [60, 61, 62, 63]), messages=looked, response=FIXED, call_id="call-2"),
        _step("alpha.1-retry", MAIN, 20, (again, [64, 65]), messages=looked, response="No idea.", call_id="call-2"),
        _step("alpha.2a", MAIN, 30, messages=[*behind, PICTURE], response="I see it."),
        _step("alpha.2b", MAIN, 40, ([*again, 60, 99, 98, 97], [70, 71]), messages=[*behind, NOW], response="Done."),
    ]


def _sub_agent() -> list[dict[str, Any]]:
    asked = [
        {"role": "system", "content": "You search packages."},
        {"role": "user", "content": "Which package has zlib.h?"},
    ]
    found = {"role": "assistant", "content": "zlib1g-dev"}
    sure = [*asked, found, {"role": "user", "content": "Sure?"}]
    more = {"metadata": {"agent": "searcher"}}
    return [
        _step("search.0", MAIN, 12, (list(range(200, 205)), [210, 211]), messages=asked, response=found, **more),
        _step("search.1", MAIN, 14, ([*range(200, 205), 210, 211, 212], [213]), messages=sure, response="Yes.", **more),
    ]


def _other() -> dict[str, Any]:
    asked = [SYSTEM, {"role": "user", "content": "The build fails. Repair it, please."}]
    return _step(
        "beta.0",
        OTHER,
        5,
        ([*range(1, 9), 33, 34, 35], [50, 80, 81]),
        messages=asked,
        response="I cannot.",
        status="error",
    )


def _step(
    step_id: str, trajectory: str, at: float, ids: tuple[list[int], list[int]] | None = None, **more: Any
) -> dict[str, Any]:
    """A step of 3.5 seconds that began `at` seconds in; its first token came after 0.75. Logprobs: -0.25, -0.5, …"""
    begun = BEGUN + timedelta(seconds=at)
    sampled: dict[str, Any] = {}
    if ids is not None:
        logprobs = [-0.25 * (number + 1) for number in range(len(ids[1]))]
        sampled = {"prompt_ids": ids[0], "response_ids": ids[1], "logprobs": logprobs, "fingerprint": "qwen3"}
    said: dict[str, Any] = {
        "step_id": step_id,
        "trajectory_id": trajectory,
        "group_id": GROUP,
        "prompt_id": "build",
        "model": "qwen-rl",
        "policy": "rl",
        "policy_version": 3,
        "metadata": {"agent": "coder"},
        "sampling": {"temperature": 0.7},
        "started_at": begun.isoformat(),
        "first_token_at": (begun + timedelta(seconds=0.75)).isoformat(),
        "finished_at": (begun + timedelta(seconds=3.5)).isoformat(),
    }
    return said | sampled | more
