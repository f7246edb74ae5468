from __future__ import annotations

import struct
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stepwell.testing import ByteTokenizer, ChatTemplate, Reply, ToolCall
from stepwell.testing._sampling import sample

TOKENIZER, TEMPLATE = ByteTokenizer(), ChatTemplate()
text = st.text(max_size=30) | st.sampled_from(["the answer", " the", "\n", "<", "<|im_end|>", "<tool_call>", "é" * 5])
names = st.text("abc_the", min_size=1, max_size=8)
replies = st.builds(
    Reply,
    content=st.none() | text,
    tool_calls=st.lists(st.builds(ToolCall, names, text | st.just('{"x": "ü"}')), max_size=3),
    reasoning=st.none() | text,
)
OPENING: list[dict[str, Any]] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Grüße"}]


def echo(reply: Reply) -> dict[str, Any]:
    calls = [{"function": {"name": call.name, "arguments": call.arguments}} for call in reply.tool_calls]
    return {"role": "assistant", "content": reply.content, "tool_calls": calls, "reasoning": reply.reasoning}


@given(st.lists(replies, min_size=1, max_size=3))
def test_each_prompt_is_an_exact_append_of_the_turn_before(turns: list[Reply]) -> None:
    messages = list(OPENING)
    for reply in turns:
        prompt_ids = TOKENIZER.encode(TEMPLATE.render(messages))
        sampled = sample(reply, prompt_ids, TOKENIZER, None)
        messages += [echo(reply), {"role": "tool", "content": "12"}, {"role": "user", "content": "go on"}]
        following = TOKENIZER.encode(TEMPLATE.render(messages))
        so_far = prompt_ids + sampled.ids
        assert following[: len(so_far)] == so_far


@given(replies, st.none() | st.integers(1, 60))
def test_ids_text_bounds_and_logprobs_belong_together(reply: Reply, max_tokens: int | None) -> None:
    sampled = sample(reply, [1, 2, 3], TOKENIZER, max_tokens)
    whole = sample(reply, [1, 2, 3], TOKENIZER, None)
    ended = sampled.finish_reason != "length"
    assert ended == (max_tokens is None or len(whole.ids) <= max_tokens)
    assert sampled.ids == (whole.ids if ended else whole.ids[:max_tokens])
    assert ended == (sampled.ids[-1:] == [TOKENIZER.end_of_turn] and len(sampled.ids) == len(whole.ids))
    assert TOKENIZER.decode_bytes(sampled.ids[: len(sampled.ids) - ended]) == sampled.data
    assert len(sampled.ids) == len(sampled.logprobs) == len(sampled.bounds)
    assert sampled.bounds[-1] == len(sampled.data)
    assert sampled.whole == (sampled.data == whole.data)


@given(replies, st.none() | st.integers(1, 60))
def test_spans_cover_the_response_without_gap_or_overlap(reply: Reply, max_tokens: int | None) -> None:
    sampled = sample(reply, [], TOKENIZER, max_tokens)
    position = 0
    for span in sampled.spans:
        assert span.start == position <= span.stop
        position = span.stop
    assert position == len(sampled.data)


def test_finish_reasons() -> None:
    call = ToolCall("f", "{}")
    assert sample(Reply("hi"), [], TOKENIZER, None).finish_reason == "stop"
    assert sample(Reply("hi", [call]), [], TOKENIZER, None).finish_reason == "tool_calls"
    assert sample(Reply("hi", finish_reason="content_filter"), [], TOKENIZER, None).finish_reason == "content_filter"
    cut = sample(Reply("hi", finish_reason="length"), [], TOKENIZER, None)
    assert (cut.finish_reason, cut.ids) == ("length", TOKENIZER.encode("hi"))


def test_tool_calls_keep_their_id_or_get_one() -> None:
    calls = sample(Reply(tool_calls=[ToolCall("f", "{}", "mine"), ToolCall("f", "{}")]), [], TOKENIZER, None).tool_calls
    assert calls[0].id == "mine"
    assert calls[1].id.startswith("chatcmpl-tool-")


@given(st.lists(st.integers(0, 400), max_size=20), text)
def test_logprobs_are_float32_in_range_and_reproducible(prompt_ids: list[int], answer: str) -> None:
    first = sample(Reply(answer), prompt_ids, TOKENIZER, None).logprobs
    assert first == sample(Reply(answer), prompt_ids, TOKENIZER, None).logprobs
    assert all(-3 < value <= 0 and struct.unpack("f", struct.pack("f", value))[0] == value for value in first)


def test_logprobs_differ_between_prompts_and_between_responses() -> None:
    rollouts = [([1], "xyz-1"), ([2], "xyz-1"), ([1], "xyz-2")]
    assert len({tuple(sample(Reply(answer), ids, TOKENIZER, None).logprobs) for ids, answer in rollouts}) == 3
    # Cut before they differ, two responses to one prompt are the same sample.
    assert len({tuple(sample(Reply(answer), [1], TOKENIZER, 4).logprobs) for _, answer in rollouts}) == 1
