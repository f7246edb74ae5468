"""Spans of the OpenInference conventions: `openinference.span.kind` is `LLM`, a message's fields are attributes each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.gateway._otlp_said import Said, first, json_of, listed, tool_call, tree, without_none
from stepwell.gateway._otlp_spans import Span

__all__ = ["openinference"]

_NOT_SAMPLING = frozenset({"model", "messages", "tools", "prompt", "input"})


def openinference(span: Span) -> Said | None:
    """What the span says of a call of a model, or None where it is about something else."""
    said = span.attributes
    if said.get("openinference.span.kind") != "LLM":
        return None
    whole = json_of(said.get("output.value"))
    raw: Mapping[str, Any] = whole if isinstance(whole, dict) else {}
    asked = json_of(said.get("llm.invocation_parameters"))
    asked = asked if isinstance(asked, dict) else {}
    model = said.get("llm.model_name")
    return Said(
        "openinference",
        _messages(said, "llm.input_messages") or _plain(said.get("input.value"), "user"),
        _answers(said, raw),
        tools=_tools(said),
        sampling={name: value for name, value in asked.items() if name not in _NOT_SAMPLING},
        usage=_usage(said),
        model=model,
        model_asked=first(asked, "model") or model,
        response_id=raw.get("id"),
        session=said.get("session.id"),
        provider=first(said, "llm.provider", "llm.system"),
    )


def _answers(said: Mapping[str, Any], raw: Mapping[str, Any]) -> list[tuple[dict[str, Any], str | None]]:
    found = _messages(said, "llm.output_messages") or _plain(said.get("output.value"), "assistant")
    choices = raw.get("choices")
    choices = choices if isinstance(choices, list) else []
    reasons = [choice.get("finish_reason") if isinstance(choice, dict) else None for choice in choices]
    one = said.get("llm.finish_reason")
    reasons = [reason if isinstance(reason, str) else None for reason in reasons or [one]] + [None] * len(found)
    return list(zip(found, reasons, strict=False))


def _messages(said: Mapping[str, Any], prefix: str) -> list[dict[str, Any]]:
    return [_message(item) for item in listed(tree(said, prefix), "message")]


def _message(item: dict[str, Any]) -> dict[str, Any]:
    calls = [_call(call) for call in listed(item.get("tool_calls"), "tool_call")]
    parts = [_part(part) for part in listed(item.get("contents"), "message_content")]
    named = without_none(
        {"tool_calls": calls or None, "tool_call_id": item.get("tool_call_id"), "name": item.get("name")}
    )
    return {"role": item.get("role") or "assistant", "content": parts or item.get("content"), **named}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    function = function if isinstance(function, dict) else {}
    return tool_call(call.get("id"), function.get("name"), function.get("arguments"))


def _part(part: dict[str, Any]) -> dict[str, Any]:
    image = part.get("image")
    inner = image.get("image") if isinstance(image, dict) else None
    if isinstance(inner, dict) and isinstance(inner.get("url"), str):
        return {"type": "image_url", "image_url": {"url": inner["url"]}}
    return {"type": "text", "text": part.get("text") or ""}


def _plain(value: Any, role: str) -> list[dict[str, Any]]:
    """A call of which only the text is known."""
    return [{"role": role, "content": value}] if isinstance(value, str) and value and json_of(value) is None else []


def _tools(said: Mapping[str, Any]) -> list[Any] | None:
    found = [json_of(tool.get("json_schema")) for tool in listed(tree(said, "llm.tools"), "tool")]
    return [tool for tool in found if isinstance(tool, dict)] or None


def _usage(said: Mapping[str, Any]) -> dict[str, Any]:
    names = {"prompt_tokens": "prompt", "completion_tokens": "completion", "total_tokens": "total"}
    cached = said.get("llm.token_count.prompt_details.cache_read")
    counts = without_none({name: said.get(f"llm.token_count.{word}") for name, word in names.items()})
    return counts if cached is None else {**counts, "prompt_tokens_details": {"cached_tokens": cached}}
