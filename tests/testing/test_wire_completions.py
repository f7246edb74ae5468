from __future__ import annotations

from typing import Any

import orjson
import pytest

from stepwell.testing import ByteTokenizer, Delivery, Reply, ToolCall
from stepwell.testing._dialect import Received, Refused
from stepwell.testing._wire_completions import OpenAICompletions

from .dialogue import PLAIN, STREAMED, ask

PROMPT = next(way for way in PLAIN if way.dialect == "openai.completions")
STREAM = next(way for way in STREAMED if way.dialect == "openai.completions")
IDS = ByteTokenizer().encode("hallo du")


@pytest.mark.parametrize("prompt", ["hallo du", ["hallo du"], IDS, [IDS]])
def test_the_forms_of_a_prompt(prompt: Any) -> None:
    asked = OpenAICompletions().read(Received({"prompt": prompt}))
    assert asked.prompt == "hallo du"
    assert asked.messages == [{"role": "user", "content": "hallo du"}]


@pytest.mark.parametrize("prompt", [None, 5, ["a", "b"], [[1], [2]], [10**9], {}])
def test_what_it_refuses(prompt: Any) -> None:
    with pytest.raises(Refused, match="prompt"):
        OpenAICompletions().read(Received({"prompt": prompt}))


def test_ids_and_logprobs_of_a_plain_answer() -> None:
    answered = ask(PROMPT, Reply("Grüße"), return_token_ids=True, logprobs=1, prompt=IDS)
    (choice,), (sampled,) = answered.response.json()["choices"], answered.call.choices
    assert (choice["prompt_token_ids"], choice["token_ids"]) == (IDS, sampled.response_ids)
    assert choice["logprobs"]["token_logprobs"] == sampled.logprobs
    assert answered.step().response_ids == sampled.response_ids


@pytest.mark.parametrize("chunk_tokens", [1, 2, 100])
def test_ids_and_logprobs_of_a_stream(chunk_tokens: int) -> None:
    reply = Reply("Grüße 👋", delivery=Delivery(chunk_tokens=chunk_tokens))
    answered = ask(STREAM, reply, return_token_ids=True, logprobs=1, stream_options={"include_usage": True})
    events = answered.response.content.strip().split(b"\n\n")
    assert events[-1] == b"data: [DONE]"
    chunks = [orjson.loads(event.removeprefix(b"data: ")) for event in events[:-1]]
    choices = [chunk["choices"][0] for chunk in chunks[:-1]]
    assert "".join(choice["text"] for choice in choices) == "Grüße 👋"
    (sampled,) = answered.call.choices
    assert [token for choice in choices for token in choice["token_ids"]] == sampled.response_ids
    assert [value for choice in choices for value in choice["logprobs"]["token_logprobs"]] == sampled.logprobs
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + ["stop"]
    assert chunks[-1]["usage"]["completion_tokens"] == len(sampled.response_ids)


def test_a_call_is_the_markup_that_was_sampled() -> None:
    text = ask(PROMPT, Reply(None, [ToolCall("f", "{}")])).response.json()["choices"][0]["text"]
    assert text == '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
