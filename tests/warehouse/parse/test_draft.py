"""What is computed of a step once, on its way in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepwell.errors import InvalidRecord
from stepwell.exchange.canonical import canonical_message, canonical_messages
from stepwell.sdk.records import Step
from stepwell.warehouse._parse.draft import Draft, draft


def says(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def drafted(step: Step) -> Draft:
    messages = None if step.messages is None else canonical_messages(step.messages)
    response = None if step.response is None else canonical_message({"role": "assistant", **step.response})
    return draft(step, messages, response, "p", 1)


def test_arrays() -> None:
    made = drafted(Step(prompt_ids=[1, 2], response_ids=[3], logprobs=[-0.1]))
    assert made.tokens is not None
    assert made.tokens.dtype == np.int32
    assert (made.tokens.tolist(), made.prompt_length) == ([1, 2, 3], 2)
    assert made.logprobs is not None
    assert made.logprobs.dtype == np.float32
    assert made.logprobs.tolist() == [np.float32(-0.1)]
    assert (made.messages, made.response, made.conversation, made.conversation_key) == ((), b"", (), None)


def test_the_bulk_is_held_once() -> None:
    step = Step(
        prompt_ids=[1],
        response_ids=[3],
        logprobs=[-0.1],
        messages=[{"role": "user", "content": "q"}],
        response=says("a"),
        tools=[{}],
        metadata={"k": 1},
    )
    kept = drafted(step).step
    assert [kept.prompt_ids, kept.response_ids, kept.logprobs, kept.messages, kept.response, kept.tools] == [None] * 6
    assert (kept.step_id, kept.metadata) == (step.step_id, {"k": 1})
    assert step.prompt_ids == [1], "the record that came is not touched"


def test_absent_and_empty_are_different() -> None:
    assert drafted(Step(prompt_ids=[1], response_ids=[])).logprobs is None
    empty = drafted(Step(prompt_ids=[1], response_ids=[], logprobs=[]))
    assert empty.logprobs is not None
    assert len(empty.logprobs) == 0
    assert drafted(Step(messages=[], response=says("a"))).tokens is None
    assert (
        drafted(Step(messages=[], response=says("a"), tools=[])).tools,
        drafted(Step(messages=[], response=says("a"))).tools,
    ) == (
        b"[]",
        b"null",
    )


@pytest.mark.parametrize("value", [-1e39, -1e300])
def test_a_logprob_that_float32_would_make_infinite(value: float) -> None:
    with pytest.raises(InvalidRecord, match=r"^logprobs\[1\]: -1e\+\d+ is beyond float32"):
        drafted(Step(prompt_ids=[1], response_ids=[1, 2], logprobs=[0.0, value]))
    lowest = float(np.finfo(np.float32).min)
    assert drafted(Step(prompt_ids=[1], response_ids=[1], logprobs=[lowest])).logprobs == np.float32(lowest)


def test_keys_name_conversations() -> None:
    first = drafted(Step(messages=[{"role": "user", "content": "q"}], response=says("a")))
    talk = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    second = drafted(Step(messages=[*talk, {"role": "user", "content": "r"}], response=says("b")))
    assert len(second.prompt_keys) == 3
    assert second.prompt_keys[0] == first.prompt_keys[0]
    assert second.prompt_keys[1] == first.conversation_key
    assert second.conversation == (*second.messages, second.response)


def test_nobody_can_continue_what_was_not_answered() -> None:
    asked = [{"role": "user", "content": "q"}]
    assert drafted(Step(messages=asked, response={"role": "assistant", "content": None})).conversation_key is None
    assert drafted(Step(messages=[], response=says("a"))).conversation_key is None
