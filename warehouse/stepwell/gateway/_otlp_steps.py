"""Spans that report a call of a model, as steps.

A trace has texts only, as an instrumentation wrote them down: its steps are not for training. A step is called
`<trace id>.<span id>.<choice>`, so that a batch that an exporter sends twice is recognised; a call of which two instrumentations tell is
recognised by its answer (`call_key`). `metadata.otlp` says that it comes from a trace; the same call, captured by the proxy, has the same
`response_id`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from stepwell.errors import InvalidRecord
from stepwell.gateway._memory import hashed
from stepwell.gateway._otlp_genai import genai
from stepwell.gateway._otlp_openinference import openinference
from stepwell.gateway._otlp_said import Said, without_none
from stepwell.gateway._otlp_spans import Span
from stepwell.sdk.records import Step

__all__ = ["REASON", "call_key", "steps_of"]

REASON = "text only: a trace reported it"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CUT = frozenset({"length", "max_tokens", "max_output_tokens"})
_TRACE_BYTES, _SPAN_BYTES = 16, 8


def steps_of(span: Span) -> list[dict[str, Any]]:
    """The plain values of its steps, one per choice; none where the span is not about a call of a model.

    Raises InvalidRecord where it is, and does not say enough.
    """
    said = genai(span) or openinference(span)
    if said is None:
        return []
    if len(span.trace_id) != 2 * _TRACE_BYTES or len(span.span_id) != 2 * _SPAN_BYTES:
        raise InvalidRecord("", f"the span {span.name[:100]!r} has no trace id of 16 bytes and span id of 8")
    if not said.answers and span.error is not None:
        said.answers = [({"role": "assistant", "content": ""}, None)]
    for field, given in (("messages", said.messages), ("response", said.answers)):
        if not given:
            detail = f"the span {span.name[:100]!r} has none: have the instrumentation capture the contents of messages"
            raise InvalidRecord(field, detail)
    common = _common(span, said)
    return [
        {**common, "step_id": f"{common['call_id']}.{number}", "response": answer, **_end(span, reason)}
        for number, (answer, reason) in enumerate(said.answers)
    ]


def call_key(step: Step) -> bytes | None:
    """What is the same where two spans of a trace tell of one answer, as an SDK's and a framework's instrumentation do; None without an id.

    The provider's id alone would not do: there are servers that draw it from a thousand.
    """
    if step.response_id is None or step.metadata is None or step.response is None:
        return None
    choice = step.step_id.rpartition(".")[2]
    return hashed("otlp", step.metadata["otlp"]["trace_id"], step.response_id, choice, *_words(step.response))


def _words(answer: dict[str, Any]) -> list[str]:
    """Its texts and the names of the tools it calls: conventions write the rest in different ways."""
    content = answer.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part.get("text") for part in parts if isinstance(part, dict)]
    calls = answer.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    names = [function.get("name") for function in functions if isinstance(function, dict)]
    return ["".join(text for text in texts if isinstance(text, str)).strip(), *map(str, names)]


def _common(span: Span, said: Said) -> dict[str, Any]:
    origin = without_none(
        {
            "trace_id": span.trace_id,
            "span_id": span.span_id,
            "parent_span_id": span.parent_id or None,
            "span": span.name,
            "convention": said.convention,
            "provider": said.provider,
            "service": span.resource.get("service.name"),
        }
    )
    return without_none(
        {
            "call_id": f"{span.trace_id}.{span.span_id}",
            "trajectory_id": said.session or span.trace_id,
            "messages": said.messages,
            "tools": said.tools,
            "sampling": said.sampling or None,
            "usage": said.usage or None,
            "model": said.model or said.model_asked,
            "model_asked": said.model_asked,
            "response_id": said.response_id or None,
            "started_at": _time(span.started_ns, "started_at"),
            "finished_at": _time(span.finished_ns, "finished_at"),
            "trainable": False,
            "untrainable_reason": REASON,
            "metadata": {"otlp": origin},
        }
    )


def _end(span: Span, reason: str | None) -> dict[str, Any]:
    if span.error is not None:
        return without_none({"status": "error", "finish_reason": reason, "extra": {"error": span.error}})
    return without_none({"status": "truncated" if reason in _CUT else None, "finish_reason": reason})


def _time(ns: int, field: str) -> datetime | None:
    try:
        return _EPOCH + timedelta(microseconds=ns // 1000) if ns else None
    except OverflowError:
        raise InvalidRecord(field, f"{ns} ns since 1970 is no time") from None
