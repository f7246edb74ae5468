"""A Converse answer, plain or streamed, as what a step needs of it; Nova's own protocol has the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stepwell.exchange._bedrock.deltas import BlockDeltas
from stepwell.exchange._bedrock.messages import message_from
from stepwell.exchange._bedrock.wire import error_in
from stepwell.exchange._body import without
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Answer, Choice

LENGTH = frozenset({"max_tokens", "model_context_window_exceeded"})
"""Stop reasons that mean a limit of length."""

_PADDING = "p"
"""Random letters that hide how long an event is."""


def answer_from_body(value: object) -> Answer:
    """The answer that a plain body holds. Raises Unparseable when it holds none."""
    if not isinstance(value, dict):
        raise Unparseable("the response is no JSON object")
    output = value.get("output")
    if output is None and (error := error_in(value)) is not None:
        return Answer(error=error, terminated=True)
    if not isinstance(output, Mapping) or not (output.get("message") or value.get("stopReason")):
        raise Unparseable("the response has no output message")
    message = output.get("message") or {"role": "assistant", "content": []}
    extra = without(value, "output", "stopReason", "usage")
    if rest := without(dict(output), "message"):
        extra["output"] = rest
    return _answer(message, value.get("stopReason"), value.get("usage"), extra, terminated=True)


def answer_from_events(events: Iterable[tuple[str, Mapping[str, Any]]], whole: bool = True) -> Answer:
    """The answer of a stream's events, each with its kind, in their order, as far as they go.

    `whole`: the transfer ended as it should, so that faults are the server's.

    Raises:
        Unparseable: the stream was whole, and is not what the API promises.
    """
    deltas = BlockDeltas()
    in_block = {"contentBlockDelta": deltas.add, "contentBlockStart": deltas.start, "contentBlockStop": deltas.stop}
    role, fields, others, stopped, seen = "assistant", dict[str, Any](), list[Any](), False, False
    for kind, event in events:
        seen = True
        if kind in in_block:
            try:
                in_block[kind](event)
            except Unparseable:
                if whole:
                    raise
                break  # what came before stands
        elif kind == "messageStart":
            role = event.get("role") or role
        elif kind in ("messageStop", "metadata"):
            stopped = stopped or kind == "messageStop"
            fields.update(without(dict(event), _PADDING))
        else:
            others.append({kind: without(dict(event), _PADDING)})
    if not seen:
        return Answer()
    extra = without(fields, "stopReason", "usage") | ({"events": others} if others else {})
    message = {"role": role, "content": deltas.blocks()}
    return _answer(message, fields.get("stopReason"), fields.get("usage"), extra, terminated=stopped)


def _answer(message: object, reason: Any, usage: Any, extra: dict[str, Any], *, terminated: bool) -> Answer:
    try:
        canonical = message_from(message)
    except ValueError as error:
        raise Unparseable(f"the answer's message cannot be read: {error}") from None
    return Answer(
        choices=[Choice(canonical, finish_reason=reason, cut=isinstance(reason, str) and reason in LENGTH)],
        model=_routed(extra),
        usage=usage,
        terminated=terminated,
        extra=extra,
    )


def _routed(extra: Mapping[str, Any]) -> str | None:
    """The model that a prompt router chose."""
    trace = extra.get("trace")
    router = trace.get("promptRouter") if isinstance(trace, Mapping) else None
    model = router.get("invokedModelId") if isinstance(router, Mapping) else None
    return model if isinstance(model, str) else None
