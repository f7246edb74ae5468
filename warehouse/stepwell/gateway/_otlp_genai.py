"""Spans of OpenTelemetry's semantic conventions for generative AI, in the forms they have had.

1. `gen_ai.input.messages`, `gen_ai.output.messages`, `gen_ai.system_instructions` with typed parts: attributes of the span, or of its event
   `gen_ai.client.inference.operation.details` (version 1.37 and later);
2. one event per message: `gen_ai.user.message`, …, `gen_ai.choice` (1.28 to 1.36), its body in `gen_ai.event.content` or in attributes;
3. the events `gen_ai.content.prompt` and `gen_ai.content.completion` (before that);
4. one attribute per field of a message: `gen_ai.prompt.0.role`, `gen_ai.completion.0.content` (OpenLLMetry).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stepwell.gateway._otlp_parts import message_of, messages_of
from stepwell.gateway._otlp_said import Said, first, json_of, listed, tool_call, tree, without_none
from stepwell.gateway._otlp_spans import Span, SpanEvent

__all__ = ["genai"]

_OPERATIONS = ("chat", "text_completion", "generate_content")
_DETAILS = "gen_ai.client.inference.operation.details"
_MESSAGES = {f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")}
_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "frequency_penalty", "presence_penalty", "seed")

Answers = list[tuple[dict[str, Any], str | None]]


def genai(span: Span) -> Said | None:
    """What the span says of a call of a model, or None where it is about something else."""
    said = dict(span.attributes)
    for event in span.events:
        if event.name == _DETAILS:
            said |= event.attributes
    operation = said.get("gen_ai.operation.name")
    if operation not in _OPERATIONS and not (
        operation is None and said.get("llm.request.type") in ("chat", "completion")
    ):
        return None
    messages, answers = _by_parts(said)
    if not messages and not answers:
        messages, answers = _by_events(span.events)
    if not messages and not answers:
        messages, answers = _by_fields(said)
    reasons = said.get("gen_ai.response.finish_reasons")
    return Said(
        "gen_ai",
        messages,
        _with_reasons(answers, reasons if isinstance(reasons, list) else [reasons]),
        tools=_list(said.get("gen_ai.tool.definitions")),
        sampling=_sampling(said),
        usage=without_none(
            {
                "input_tokens": first(said, "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
                "output_tokens": first(said, "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
            }
        ),
        model=said.get("gen_ai.response.model"),
        model_asked=said.get("gen_ai.request.model"),
        response_id=said.get("gen_ai.response.id"),
        session=first(said, "gen_ai.conversation.id", "session.id"),
        provider=first(said, "gen_ai.provider.name", "gen_ai.system"),
    )


def _by_parts(said: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Answers]:
    messages: list[dict[str, Any]] = []
    if system := _list(said.get("gen_ai.system_instructions")):
        messages += messages_of({"role": "system", "parts": system})
    for message in _list(said.get("gen_ai.input.messages")) or ():
        messages += messages_of(message)
    given = [item for item in _list(said.get("gen_ai.output.messages")) or () if isinstance(item, dict)]
    return messages, [(message_of(item, "assistant"), _text(item.get("finish_reason"))) for item in given]


def _by_events(events: Iterable[SpanEvent]) -> tuple[list[dict[str, Any]], Answers]:
    messages: list[dict[str, Any]] = []
    answers: Answers = []
    for event in events:
        body = json_of(event.attributes.get("gen_ai.event.content"))
        body = body if isinstance(body, dict) else event.attributes
        if (role := _MESSAGES.get(event.name)) is not None:
            messages += messages_of({"role": role, **body})
        elif event.name == "gen_ai.choice":
            inner = json_of(body.get("message"))
            message = inner if isinstance(inner, dict) else {"content": body["message"]} if "message" in body else body
            answers.append((message_of(message, "assistant"), _text(body.get("finish_reason"))))
        elif event.name == "gen_ai.content.prompt":
            messages += _written(event.attributes.get("gen_ai.prompt"), "user")
        elif event.name == "gen_ai.content.completion":
            answers += [(one, None) for one in _written(event.attributes.get("gen_ai.completion"), "assistant")]
    return messages, answers


def _by_fields(said: Mapping[str, Any]) -> tuple[list[dict[str, Any]], Answers]:
    messages = [message for item in listed(tree(said, "gen_ai.prompt")) for message in messages_of(_fields(item))]
    given = listed(tree(said, "gen_ai.completion"))
    return messages, [(message_of(_fields(item), "assistant"), _text(item.get("finish_reason"))) for item in given]


def _fields(item: dict[str, Any]) -> dict[str, Any]:
    calls = [
        tool_call(call.get("id"), call.get("name"), call.get("arguments")) for call in listed(item.get("tool_calls"))
    ]
    content = item.get("content")
    parts = json_of(content)  # OpenLLMetry writes parts as JSON
    return {**item, "content": parts if isinstance(parts, list) else content, "tool_calls": calls or None}


def _written(value: Any, role: str) -> list[dict[str, Any]]:
    """Messages that are written as JSON, or a text."""
    found = json_of(value)
    if found is None:
        return [{"role": role, "content": value}] if isinstance(value, str) and value else []
    items = found if isinstance(found, list) else [found]
    return [
        message for item in items for message in messages_of({"role": role, **item} if isinstance(item, dict) else item)
    ]


def _with_reasons(answers: Answers, reasons: list[Any]) -> Answers:
    given = [_text(reason) for reason in reasons] + [None] * len(answers)
    return [(message, said or reason) for (message, said), reason in zip(answers, given, strict=False)]


def _sampling(said: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: said.get(f"gen_ai.request.{name}") for name in _SAMPLING}
    found["seed"] = first(said, "gen_ai.request.seed", "gen_ai.openai.request.seed")
    return without_none(
        {**found, "stop": said.get("gen_ai.request.stop_sequences"), "n": said.get("gen_ai.request.choice.count")}
    )


def _list(value: Any) -> list[Any] | None:
    found = json_of(value)
    return found if isinstance(found, list) else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
