"""Cohere's Command R on Bedrock: a message beside its history, an answer of text and calls, a stream that repeats it whole at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from stepwell.exchange._bedrock.rebuild import json_of
from stepwell.exchange._body import without
from stepwell.exchange._canonical import Message, Part, text_of
from stepwell.exchange._chat.messages import argument_text
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Answer, Asked, Choice
from stepwell.sdk.records import Step

_ROLES = {"USER": "user", "CHATBOT": "assistant", "SYSTEM": "system", "TOOL": "tool"}
_COHERES = {role: name for name, role in _ROLES.items()}
_PROMPT = frozenset({"message", "chat_history", "preamble", "tools", "tool_results"})
_KEPT = frozenset({"stream", "documents"})


def asked_from(body: Mapping[str, Any], model: str | None) -> Asked:
    """The conversation: preamble, history, message, and the results of tools called for it. Raises Unparseable when it is none."""
    try:
        messages = list(_messages(body))
    except ValueError as error:
        raise Unparseable(f"a message of the request cannot be read: {error}") from None
    return Asked(
        messages,
        tools=body.get("tools"),
        sampling={key: value for key, value in body.items() if key not in _PROMPT | _KEPT},
        model=model,
        extra={key: value for key, value in body.items() if key in _KEPT},
    )


def _messages(body: Mapping[str, Any]) -> Iterable[Message]:
    if isinstance(preamble := body.get("preamble"), str) and preamble:
        yield {"role": "system", "content": [{"type": "text", "text": preamble}], "extra": {"preamble": True}}
    history = body.get("chat_history") or []
    if not isinstance(history, list):
        raise ValueError("chat_history is a list")
    for message in history:
        yield _message(message)
    text = body.get("message")
    if not isinstance(text, str):
        raise ValueError("the message is a text")
    if text:
        yield {"role": "user", "content": [{"type": "text", "text": text}]}
    if results := body.get("tool_results"):
        yield {"role": "tool", "content": _results(results)}


def _message(message: object) -> Message:
    if not isinstance(message, Mapping) or not isinstance(role := message.get("role"), str):
        raise ValueError("a message is an object with a role")
    content = _said(message.get("message"), message.get("tool_calls"))
    if message.get("tool_results"):
        content += _results(message["tool_results"])
    canonical: Message = {"role": _ROLES.get(role.upper(), role), "content": content}
    extra = without(dict(message), "role", "message", "tool_calls", "tool_results")
    return {**canonical, "extra": extra} if extra else canonical


def _said(text: object, calls: object) -> list[Part]:
    parts: list[Part] = [{"type": "text", "text": text}] if isinstance(text, str) and text else []
    if calls is not None and not isinstance(calls, list):
        raise ValueError("tool_calls is a list")
    return parts + [_call(call) for call in calls or []]


def _call(call: object) -> Part:
    if not isinstance(call, Mapping) or not isinstance(name := call.get("name"), str):
        raise ValueError("a tool call is an object with a name")
    part: Part = {"type": "tool_call", "id": None, "name": name, "arguments": argument_text(call.get("parameters"))}
    extra = without(dict(call), "name", "parameters")
    return {**part, "extra": extra} if extra else part


def _results(results: object) -> list[Part]:
    """A result names the call that it answers; what the tool gave is JSON, which the model reads as text."""
    if not isinstance(results, list) or not all(isinstance(result, Mapping) for result in results):
        raise ValueError("tool_results is a list of objects")
    return [
        {
            "type": "tool_result",
            "id": None,
            "content": [{"type": "text", "text": argument_text(result.get("outputs"))}],
            "extra": without(dict(result), "outputs"),
        }
        for result in results
    ]


def answer_from_body(value: Mapping[str, Any]) -> Answer:
    """A plain answer. Raises Unparseable when it is none."""
    reason = value.get("finish_reason")
    word = reason.upper() if isinstance(reason, str) else ""
    try:
        content = _said(value.get("text"), value.get("tool_calls"))
    except ValueError as error:
        raise Unparseable(f"the answer cannot be read: {error}") from None
    if (citations := value.get("citations")) and content and content[0]["type"] == "text":
        content[0]["extra"] = {"citations": citations}
    modelled = ("text", "tool_calls", "finish_reason", "generation_id", "meta", "citations")
    choice = Choice(
        {"role": "assistant", "content": content},
        finish_reason=reason,
        cut=word == "MAX_TOKENS",
        failed=word.startswith("ERROR"),
    )
    return Answer(
        [choice], None, value.get("generation_id"), value.get("meta"), True, None, without(dict(value), *modelled)
    )


def answer_from_events(values: Iterable[Mapping[str, Any]]) -> Answer:
    """The answer of a stream: as its last event has it, or, where that never came, what its pieces make."""
    texts: list[str] = []
    calls: list[Any] = []
    rest: dict[str, Any] = {}
    for value in values:
        match value.get("event_type"):
            case "text-generation" if isinstance(text := value.get("text"), str):
                texts.append(text)
            case "tool-calls-generation" if isinstance(made := value.get("tool_calls"), list):
                calls += made
            case "citation-generation" if isinstance(made := value.get("citations"), list):
                rest.setdefault("citations", []).extend(made)
            case "stream-end":
                last = value.get("response")
                whole = dict(last) if isinstance(last, Mapping) else {}
                return answer_from_body(
                    _pieced(texts, calls, rest) | without(dict(value), "event_type", "response") | whole
                )
            case "stream-start":
                rest |= without(dict(value), "event_type")
    answer = answer_from_body(_pieced(texts, calls, rest))
    answer.terminated = False
    return answer


def _pieced(texts: list[str], calls: list[Any], rest: dict[str, Any]) -> dict[str, Any]:
    return {**rest, "text": "".join(texts), **({"tool_calls": calls} if calls else {})}


def request_of(step: Step) -> dict[str, Any]:
    """The body that `asked_from` read."""
    messages = list(step.messages or [])
    body = {**(step.sampling or {}), **((step.extra or {}).get("request") or {}), "message": ""}
    if step.tools is not None:
        body["tools"] = step.tools
    if messages and (messages[0].get("extra") or {}).get("preamble"):
        body["preamble"] = text_of(messages.pop(0))
    if messages and messages[-1]["role"] == "tool" and not text_of(messages[-1]):
        body["tool_results"] = [_result(part) for part in messages.pop()["content"]]
    if messages and messages[-1]["role"] == "user":
        body["message"] = text_of(messages.pop())
    return {**body, "chat_history": [_turn(message) for message in messages]} if messages else body


def _turn(message: Message) -> dict[str, Any]:
    calls = [_called(part) for part in message["content"] if part["type"] == "tool_call"]
    results = [_result(part) for part in message["content"] if part["type"] == "tool_result"]
    turn = {**(message.get("extra") or {}), "role": _COHERES.get(message["role"], message["role"])}
    fields = {"message": text_of(message), "tool_calls": calls, "tool_results": results}
    return {**turn, **{key: value for key, value in fields.items() if value}}


def _called(part: Part) -> dict[str, Any]:
    return {**(part.get("extra") or {}), "name": part["name"], "parameters": json_of(part["arguments"])}


def _result(part: Part) -> dict[str, Any]:
    return {**(part.get("extra") or {}), "outputs": orjson.loads(part["content"][0]["text"] or "null")}


def answer_of(steps: Sequence[Step]) -> dict[str, Any]:
    """The plain body of the answer that the step came from."""
    step, said = steps[0], steps[0].response or {"content": []}
    calls = [_called(part) for part in said["content"] if part["type"] == "tool_call"]
    cited: dict[str, Any] = next(
        (part["extra"] for part in said["content"] if part["type"] == "text" and "extra" in part), {}
    )
    fields = {
        "tool_calls": calls,
        "finish_reason": step.finish_reason,
        "generation_id": step.response_id,
        "meta": step.usage,
    }
    rest = {**((step.extra or {}).get("response") or {}), **cited, "text": text_of({"content": said["content"]})}
    return {**rest, **{key: value for key, value in fields.items() if value}}
