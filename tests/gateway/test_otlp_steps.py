"""Spans of every convention as steps."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.gateway.otlp import SPAN, TRACE, request, span

from stepwell.errors import InvalidRecord
from stepwell.gateway._body import Body
from stepwell.gateway._otlp_spans import spans_in
from stepwell.gateway._otlp_steps import REASON, steps_of
from stepwell.sdk.records import Step, checked

CALL = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
ASKED: dict[str, Any] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-4o"}


def steps(said: dict[str, Any], events: Any = (), **more: Any) -> list[Step]:
    body = Body(json.dumps(request(span(said, events, **more))).encode())
    return [checked(Step, values) for one in spans_in(body) for values in steps_of(one)]


def test_genai_with_parts() -> None:
    system = [{"type": "text", "content": "Be brief."}]
    given = [
        {
            "role": "user",
            "parts": [
                {"type": "text", "content": "Weather?"},
                {"type": "uri", "modality": "image", "uri": "https://x/a.png"},
            ],
        },
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "c1", "name": "weather", "arguments": {"city": "Paris"}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": {"rain": True}}]},
    ]
    made = [
        {
            "role": "assistant",
            "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "Rain."}],
            "finish_reason": "stop",
        },
        {"role": "assistant", "parts": [{"type": "text", "content": "Wet."}], "finish_reason": "length"},
    ]
    said = {
        **ASKED,
        "gen_ai.system_instructions": json.dumps(system),
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps(made),
        "gen_ai.tool.definitions": json.dumps([{"type": "function", "name": "weather"}]),
        "gen_ai.response.model": "gpt-4o-2024",
        "gen_ai.response.id": "chatcmpl-7",
        "gen_ai.conversation.id": "talk-1",
        "gen_ai.provider.name": "openai",
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.stop_sequences": ["END"],
    }
    first, second = steps(said, parentSpanId="00f067aa0ba902b7")
    assert first.messages == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Weather?"},
                {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"rain":true}'},
    ]
    assert first.response == {"role": "assistant", "content": "Rain.", "reasoning_content": "hm"}
    assert (first.finish_reason, first.status, second.finish_reason, second.status) == (
        "stop",
        "ok",
        "length",
        "truncated",
    )
    assert second.response == {"role": "assistant", "content": "Wet."}
    assert (first.step_id, second.step_id) == (f"{TRACE}.{SPAN}.0", f"{TRACE}.{SPAN}.1")
    assert first.call_id == second.call_id == f"{TRACE}.{SPAN}"
    assert (first.trajectory_id, first.response_id, first.model, first.model_asked) == (
        "talk-1",
        "chatcmpl-7",
        "gpt-4o-2024",
        "gpt-4o",
    )
    assert first.usage == {"input_tokens": 11, "output_tokens": 7}
    assert first.sampling == {"temperature": 0.5, "max_tokens": 100, "stop": ["END"]}
    assert first.tools == [{"type": "function", "name": "weather"}]
    assert first.started_at == datetime(2025, 10, 9, 8, 53, 20, tzinfo=UTC)
    assert first.finished_at == datetime(2025, 10, 9, 8, 53, 22, 500_000, tzinfo=UTC)
    assert (first.trainable, first.untrainable_reason) == (False, REASON)
    assert first.metadata == {
        "otlp": {
            "trace_id": TRACE,
            "span_id": SPAN,
            "parent_span_id": "00f067aa0ba902b7",
            "span": "chat gpt-4o",
            "convention": "gen_ai",
            "provider": "openai",
            "service": "shop",
        }
    }


USER = [{"role": "user", "content": "Hi"}]
YO = {"role": "assistant", "content": "Yo"}
PARTS_IN = [{"role": "user", "parts": [{"type": "text", "content": "Hi"}]}]
PARTS_OUT = [{"role": "assistant", "parts": [{"type": "text", "content": "Yo"}], "finish_reason": "stop"}]


@pytest.mark.parametrize(
    ("said", "events"),
    [
        pytest.param({"gen_ai.input.messages": PARTS_IN, "gen_ai.output.messages": PARTS_OUT}, [], id="structured"),
        pytest.param(
            {},
            [
                (
                    "gen_ai.client.inference.operation.details",
                    {"gen_ai.input.messages": json.dumps(PARTS_IN), "gen_ai.output.messages": json.dumps(PARTS_OUT)},
                )
            ],
            id="event of details",
        ),
        pytest.param(
            {},
            [
                ("gen_ai.user.message", {"gen_ai.event.content": json.dumps({"content": "Hi"})}),
                (
                    "gen_ai.choice",
                    {
                        "gen_ai.event.content": json.dumps(
                            {"index": 0, "finish_reason": "stop", "message": {"content": "Yo"}}
                        )
                    },
                ),
            ],
            id="events with a body",
        ),
        pytest.param(
            {},
            [
                ("gen_ai.user.message", {"content": "Hi"}),
                ("gen_ai.choice", {"index": 0, "finish_reason": "stop", "message": "Yo"}),
            ],
            id="events with attributes",
        ),
        pytest.param(
            {"gen_ai.response.finish_reasons": ["stop"]},
            [
                ("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps(USER)}),
                ("gen_ai.content.completion", {"gen_ai.completion": json.dumps([YO])}),
            ],
            id="events of content",
        ),
        pytest.param(
            {
                "gen_ai.prompt.0.role": "user",
                "gen_ai.prompt.0.content": "Hi",
                "gen_ai.completion.0.role": "assistant",
                "gen_ai.completion.0.content": "Yo",
                "gen_ai.completion.0.finish_reason": "stop",
            },
            [],
            id="an attribute per field",
        ),
    ],
)
def test_every_form_of_genai_says_the_same(said: dict[str, Any], events: Any) -> None:
    [step] = steps({**ASKED, **said}, events)
    assert (step.messages, step.response, step.finish_reason) == (USER, YO, "stop")
    assert (step.trajectory_id, step.model, step.response_id) == (TRACE, "gpt-4o", None)


def test_openllmetrys_calls_of_tools() -> None:
    said = {
        "llm.request.type": "chat",
        "gen_ai.prompt.0.role": "user",
        "gen_ai.prompt.0.content": json.dumps([{"type": "text", "text": "Weather?"}]),
        "gen_ai.prompt.10.role": "user",
        "gen_ai.prompt.10.content": "last",
        "gen_ai.prompt.2.role": "tool",
        "gen_ai.prompt.2.tool_call_id": "c0",
        "gen_ai.prompt.2.content": "rain",
        "gen_ai.completion.0.tool_calls.0.id": "c1",
        "gen_ai.completion.0.tool_calls.0.name": "weather",
        "gen_ai.completion.0.tool_calls.0.arguments": '{"city":"Paris"}',
        "gen_ai.usage.prompt_tokens": 3,
    }
    [step] = steps(said)
    assert step.messages == [
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {"role": "tool", "content": "rain", "tool_call_id": "c0"},
        {"role": "user", "content": "last"},
    ]
    assert step.response == {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert step.usage == {"input_tokens": 3}


def test_openinference() -> None:
    said = {
        "openinference.span.kind": "LLM",
        "llm.model_name": "gpt-4o",
        "llm.provider": "azure",
        "llm.invocation_parameters": json.dumps({"model": "gpt-4o-asked", "temperature": 0.2, "messages": []}),
        "llm.input_messages.0.message.role": "system",
        "llm.input_messages.0.message.content": "Be brief.",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.contents.0.message_content.type": "text",
        "llm.input_messages.1.message.contents.0.message_content.text": "Weather?",
        "llm.input_messages.1.message.contents.1.message_content.type": "image",
        "llm.input_messages.1.message.contents.1.message_content.image.image.url": "https://x/a.png",
        "llm.input_messages.2.message.role": "tool",
        "llm.input_messages.2.message.tool_call_id": "c0",
        "llm.input_messages.2.message.content": "rain",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "c1",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "weather",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"city":"Paris"}',
        "llm.token_count.prompt": 11,
        "llm.token_count.completion": 7,
        "llm.token_count.total": 18,
        "llm.token_count.prompt_details.cache_read": 4,
        "llm.tools.0.tool.json_schema": json.dumps({"type": "function", "function": {"name": "weather"}}),
        "output.value": json.dumps({"id": "chatcmpl-7", "choices": [{"finish_reason": "tool_calls"}]}),
        "session.id": "talk-1",
    }
    [step] = steps(said)
    assert step.messages == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Weather?"},
                {"type": "image_url", "image_url": {"url": "https://x/a.png"}},
            ],
        },
        {"role": "tool", "content": "rain", "tool_call_id": "c0"},
    ]
    assert step.response == {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert step.usage == {
        "prompt_tokens": 11,
        "completion_tokens": 7,
        "total_tokens": 18,
        "prompt_tokens_details": {"cached_tokens": 4},
    }
    assert (step.model, step.model_asked, step.sampling) == ("gpt-4o", "gpt-4o-asked", {"temperature": 0.2})
    assert (step.trajectory_id, step.response_id, step.finish_reason) == ("talk-1", "chatcmpl-7", "tool_calls")
    assert step.tools == [{"type": "function", "function": {"name": "weather"}}]
    assert step.metadata is not None and step.metadata["otlp"]["convention"] == "openinference"


def test_openinference_of_plain_text() -> None:
    [step] = steps({"openinference.span.kind": "LLM", "input.value": "Hi", "output.value": "Yo"})
    assert (step.messages, step.response) == (USER, YO)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"http.method": "GET"},
        {"gen_ai.operation.name": "execute_tool"},
        {"gen_ai.operation.name": "embeddings", "gen_ai.request.model": "e"},
        {"gen_ai.operation.name": "invoke_agent", "gen_ai.input.messages": json.dumps(PARTS_IN)},
        {"openinference.span.kind": "CHAIN", "input.value": "Hi"},
        {"gen_ai.operation.name": ["chat"]},
    ],
)
def test_other_spans_are_passed_over(said: dict[str, Any]) -> None:
    assert steps(said) == []


def test_a_call_that_failed() -> None:
    status = {"code": 2, "message": "rate limit"}
    [step] = steps({**ASKED, "gen_ai.input.messages": json.dumps(PARTS_IN)}, status=status)
    assert (step.status, step.extra, step.response) == (
        "error",
        {"error": "rate limit"},
        {"role": "assistant", "content": ""},
    )


@pytest.mark.parametrize(
    ("said", "more", "field"),
    [
        ({}, {}, "messages"),
        ({"gen_ai.input.messages": json.dumps(PARTS_IN)}, {}, "response"),
        ({"gen_ai.output.messages": json.dumps(PARTS_OUT)}, {}, "messages"),
        ({"gen_ai.input.messages": PARTS_IN, "gen_ai.output.messages": PARTS_OUT}, {"spanId": ""}, ""),
        ({"gen_ai.input.messages": PARTS_IN, "gen_ai.output.messages": PARTS_OUT}, {"traceId": "ab"}, ""),
        (
            {"gen_ai.input.messages": PARTS_IN, "gen_ai.output.messages": PARTS_OUT, "gen_ai.response.id": 7},
            {},
            "response_id",
        ),
    ],
)
def test_a_call_that_says_too_little(said: dict[str, Any], more: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRecord) as caught:
        steps({**ASKED, **said}, **more)
    assert caught.value.field == field


def test_times_that_are_not_known_are_left_out() -> None:
    said = {**ASKED, "gen_ai.input.messages": PARTS_IN, "gen_ai.output.messages": PARTS_OUT}
    [step] = steps(said, startTimeUnixNano="0", endTimeUnixNano="0")
    assert step.started_at is None and step.finished_at is None
