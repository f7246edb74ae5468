"""Event streams: what the SDK accumulates equals the whole reply, whatever the chunking."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import AsyncOpenAI

from stepwell.testing import ByteTokenizer, ChatCall, Delivery, Reply, ScriptedServer, ToolCall
from stepwell.testing._sampling import sample
from stepwell.testing._stream import stream_events
from stepwell.testing._wire import Asked, Completion, answer_of

TOKENIZER = ByteTokenizer()
USER: Any = [{"role": "user", "content": "hi"}]
CALLS = [ToolCall("look_up", '{"key":  "Größe"}', "call_1"), ToolCall("calc", '{"x":1}', "call_2")]
IDS_ASKED = {"return_token_ids": True}


def script(call: ChatCall) -> Reply:
    return Reply("Grüße 👋 the end", CALLS)


def test_the_sdk_accumulates_the_reply(endpoint: Callable[..., Any]) -> None:
    at = endpoint(script)
    usage: Any = {"include_usage": True}
    chunks = list(
        at.openai.chat.completions.create(
            model="m", messages=USER, stream=True, stream_options=usage, logprobs=True, extra_body=IDS_ASKED
        )
    )
    logged = at.server.calls[0]
    choices = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert {chunk.id for chunk in chunks} == {logged.call_id}
    assert chunks[0].prompt_token_ids == logged.prompt_ids
    assert all(not hasattr(chunk, "prompt_token_ids") for chunk in chunks[1:])
    assert [i for choice in choices for i in getattr(choice, "token_ids", [])] == logged.choices[0].response_ids
    assert [e.logprob for choice in choices if choice.logprobs for e in choice.logprobs.content] == logged.choices[
        0
    ].logprobs
    assert "".join(choice.delta.content or "" for choice in choices) == "Grüße 👋 the end"
    assert [choice.finish_reason for choice in choices if choice.finish_reason] == ["tool_calls"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == len(logged.choices[0].response_ids)
    assert logged.stream
    assert logged.delivered
    assert logged.sent.endswith(b"data: [DONE]\n\n")


def test_the_stream_helper_sees_the_tool_calls(endpoint: Callable[..., Any]) -> None:
    at = endpoint(script)
    with at.openai.chat.completions.stream(model="m", messages=USER) as stream:
        message = stream.get_final_completion().choices[0].message
    assert [(c.id, c.function.name, c.function.arguments) for c in message.tool_calls] == [
        (call.id, call.name, call.arguments) for call in CALLS
    ]


@pytest.mark.parametrize("http2", [False, True])
async def test_the_async_sdk(
    serve: Callable[..., ScriptedServer], async_client: Callable[..., AsyncOpenAI], http2: bool
) -> None:
    server = serve(script)
    client = async_client(server, http2=http2)
    whole = await client.chat.completions.create(model="m", messages=USER)
    parts = [part async for part in await client.chat.completions.create(model="m", messages=USER, stream=True)]
    assert "".join(part.choices[0].delta.content or "" for part in parts) == whole.choices[0].message.content
    assert {call.http_version for call in server.calls} == {"2" if http2 else "1.1"}


def test_no_usage_chunk_unless_asked_and_no_vllm_fields(endpoint: Callable[..., Any]) -> None:
    at = endpoint(lambda call: Reply("hi"))
    body = at.post(stream=True).text
    assert body.endswith("\n\ndata: [DONE]\n\n")
    events = [json.loads(line.removeprefix("data: ")) for line in body.split("\n\n")[:-2]]
    assert [event["choices"][0]["delta"] for event in events] == [
        {"role": "assistant", "content": ""},
        {"content": "hi"},
    ]
    assert all(set(event) == {"id", "object", "created", "model", "choices"} for event in events)
    assert all(set(e["choices"][0]) == {"index", "delta", "logprobs", "finish_reason"} for e in events)


def test_choices_are_streamed_side_by_side(endpoint: Callable[..., Any]) -> None:
    at = endpoint(lambda call: Reply("x" * 12))
    chunks = at.openai.chat.completions.create(model="m", messages=USER, n=2, stream=True)
    assert [chunk.choices[0].index for chunk in chunks] == [0, 1] * 5


def accumulate(events: list[bytes]) -> tuple[str, str, dict[int, dict[str, str]], list[int], list[float]]:
    """Put a stream together by hand: content, reasoning, tool calls by index, ids, log-probabilities."""
    content = reasoning = ""
    calls: dict[int, dict[str, str]] = {}
    ids: list[int] = []
    logprobs: list[float] = []
    for event in events[:-1]:
        for choice in json.loads(event.removeprefix(b"data: "))["choices"]:
            delta = choice["delta"]
            content += delta.get("content") or ""
            reasoning += delta.get("reasoning") or ""
            ids += choice.get("token_ids", [])
            logprobs += [entry["logprob"] for entry in (choice["logprobs"] or {"content": []})["content"]]
            for part in delta.get("tool_calls", []):
                if "id" in part:
                    assert part["index"] not in calls
                    calls[part["index"]] = {"id": part["id"], "name": part["function"]["name"], "arguments": ""}
                calls[part["index"]]["arguments"] += part["function"]["arguments"]
    return content, reasoning, calls, ids, logprobs


def completion(reply: Reply, max_tokens: int | None) -> Completion:
    asked = Asked.of({"stream": True, "logprobs": True, "return_token_ids": True})
    sampled = sample(reply, [1], TOKENIZER, max_tokens)
    return Completion("chatcmpl-1", 0, "m", [1], [sampled], asked, TOKENIZER, None)


text = st.text(max_size=20)
replies = st.builds(
    Reply,
    content=st.none() | text,
    tool_calls=st.lists(st.builds(ToolCall, st.text("ab", min_size=1, max_size=4), text), max_size=2),
    reasoning=st.none() | text,
)


@given(replies, st.integers(1, 9), st.none() | st.integers(1, 80))
def test_any_chunking_says_the_same(reply: Reply, chunk_tokens: int, max_tokens: int | None) -> None:
    written = completion(reply, max_tokens)
    sampled = written.samples[0]
    events = stream_events(written, Delivery(chunk_tokens=chunk_tokens))
    content, reasoning, calls, ids, logprobs = accumulate(events)
    assert (ids, logprobs) == (sampled.ids, sampled.logprobs)
    if sampled.whole:
        answer = answer_of(sampled)
        assert (content, reasoning) == (answer.content or "", answer.reasoning or "")
        assert [tuple(call.values()) for call in calls.values()] == [
            (call.id, call.name, call.arguments) for call in sampled.tool_calls
        ]
    finishes = [c["finish_reason"] for e in events[:-1] for c in json.loads(e[6:])["choices"] if c["finish_reason"]]
    assert finishes == [sampled.finish_reason]


def test_markup_chunks_carry_ids_only_and_may_be_swallowed() -> None:
    written = completion(Reply(tool_calls=CALLS), None)
    sampled = written.samples[0]
    kept, swallowed = (stream_events(written, Delivery(chunk_tokens=1, swallow_markup=flag)) for flag in (False, True))
    assert accumulate(kept)[3] == sampled.ids
    assert 0 < len(accumulate(swallowed)[3]) < len(sampled.ids)
    assert accumulate(swallowed)[2] == accumulate(kept)[2]


def test_markup_alone_makes_an_empty_delta() -> None:
    written = completion(Reply("é", reasoning="h"), None)
    events = stream_events(written, Delivery(chunk_tokens=1))
    deltas = [json.loads(event[6:])["choices"][0]["delta"] for event in events[1:-1]]
    opening, closing = TOKENIZER.encode("<think>\n"), TOKENIZER.encode("\n</think>\n\n")
    # Half a character says nothing yet, but an engine sends its empty text.
    assert deltas == [{}] * len(opening) + [{"reasoning": "h"}] + [{}] * len(closing) + [
        {"content": ""},
        {"content": "é"},
        {},
    ]
