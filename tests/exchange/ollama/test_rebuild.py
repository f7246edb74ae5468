"""Steps back to Ollama's bodies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepwell.exchange import dialect_for, parse

from .test_dialect import lines, make

CALL = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": {"a": 1}}}]}
CHAT = {
    "model": "q", "stream": False, "keep_alive": 0, "options": {"temperature": 0.5, "seed": 1}, "format": {"type": "object"},
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "messages": [
        {"role": "system", "content": "brief"}, {"role": "user", "content": "see", "images": ["eA==", "not base64!"]},
        {**CALL, "thinking": "hm"}, {"role": "tool", "content": "42", "tool_name": "f"}],
}  # fmt: skip
GENERATE = {"model": "q", "system": "brief", "prompt": "def f(", "suffix": "return", "images": ["eA=="], "raw": True,
            "template": "t", "context": [1, 2], "options": {"num_predict": 1}, "stream": False}  # fmt: skip
DONE = {"model": "q", "created_at": "t", "done": True, "done_reason": "stop", "eval_count": 3, "load_duration": 1}


@pytest.mark.parametrize(
    ("path", "asked", "answer"),
    [
        ("chat", CHAT, {**DONE, "message": {**CALL, "thinking": "hm"}, "logprobs": [{"token": "a", "logprob": -1}]}),
        ("chat", {"model": "q", "messages": [{"role": "user", "content": "x"}]}, {**DONE, "message": CALL}),
        ("generate", GENERATE, {**DONE, "response": "x", "thinking": "hm", "context": [1, 2, 3]}),
        ("generate", {"model": "q", "prompt": "x"}, {**DONE, "response": ""}),
    ],
)
def test_both_bodies_come_back(path: str, asked: dict[str, Any], answer: dict[str, Any]) -> None:
    unset = {"messages": None} if path == "generate" else {"prompt": None}
    exchange = make(json.dumps(answer).encode(), {**asked, **unset}, path=path)
    steps, dialect = parse(exchange), dialect_for("POST", f"/api/{path}")
    assert dialect is not None
    assert dialect.request_of(steps[0]) == asked
    assert dialect.answer_of(steps) == answer


def test_an_error_comes_back_with_what_was_said_before_it() -> None:
    chat, failed = dialect_for("POST", "/api/chat"), {"error": "no"}
    assert chat is not None
    assert chat.answer_of(parse(make(lines(failed), status=500))) == failed
    said = {"model": "q", "message": {"role": "assistant", "content": "par"}}
    assert chat.answer_of(parse(make(lines(said, failed)))) == {**said, **failed, "done": False}
    generate = dialect_for("POST", "/api/generate")
    assert generate is not None
    assert generate.answer_of(parse(make(lines(failed), status=500, path="generate"))) == failed
