from __future__ import annotations

from typing import Any

from stepwell.testing import ChatCall


def call(**body: Any) -> ChatCall:
    body.setdefault("messages", [])
    return ChatCall(body["messages"], (), body, b"{}", 0, 0)


def test_what_a_call_says_of_itself() -> None:
    messages = [{"role": role, "content": ""} for role in ("user", "assistant", "tool", "assistant", "user")]
    assert call(messages=messages).turn == 2
    assert call().turn == 0
    assert (call(model="m", seed=7).model, call(seed=7).seed) == ("m", 7)
    assert (call().model, call().seed, call(seed="x").seed) == ("", 0, 0)
