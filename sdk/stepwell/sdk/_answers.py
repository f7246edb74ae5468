"""A provider's answer as its SDK gave it, and the request that it answers: the one parser reads them like a captured call.

Known by their form: chat completions and responses of OpenAI and of those who imitate it, Anthropic's messages, Gemini's contents; as
an object with `model_dump`, `to_dict` or `to_json`, or as a dict.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from stepwell.errors import InvalidRecord

__all__ = ["Asked", "dumped", "plain", "recognised", "request_for"]

_FIELD = "openai_response"
_KNOWN = "an OpenAI chat completion or response, an Anthropic message, or a Gemini answer"

Asked = tuple[str, dict[str, Any]]
"""A URL and a body."""


def plain(value: object, field: str = _FIELD) -> dict[str, Any]:
    """An SDK's object as the JSON object that it was on the wire. Raises InvalidRecord."""
    if isinstance(value, dict):
        return value
    found = dumped(value)
    if not isinstance(found, dict):
        raise InvalidRecord(field, f"is {_described(value)}; known are {_KNOWN}, or such a thing as a dict")
    return found


def recognised(value: object) -> tuple[str, dict[str, Any]]:
    """The dialect of an answer, and its body. Raises InvalidRecord naming what is not as it should be."""
    body = plain(value)
    kind = body.get("object")
    if isinstance(kind, str) and kind.endswith(".chunk"):
        raise InvalidRecord(_FIELD, "is one piece of a stream: give the whole answer, or wrap the client with sdk.wrap")
    for dialect, (fits, members) in _FORMS.items():
        if fits(body):
            if not isinstance(body.get(members), list):
                raise InvalidRecord(f"{_FIELD}.{members}", "is no list")
            if dialect == "openai.chat" and not body[members]:
                raise InvalidRecord(f"{_FIELD}.{members}", "is empty: nothing was answered")
            return dialect, _camel(body) if dialect == "gemini" else body
    raise InvalidRecord(_FIELD, f"is {_described(value)} of an unknown form; known are {_KNOWN}")


def request_for(
    dialect: str, answer: Mapping[str, Any], messages: object, tools: object, sampling: Mapping[str, Any]
) -> Asked:
    """The request as it must have been. Raises InvalidRecord."""
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not isinstance(messages, list) or not messages:
        raise InvalidRecord("messages", "an answer needs the messages that it answers: what did the policy see?")
    listed = [plain(message, f"messages[{number}]") for number, message in enumerate(messages)]
    url, body = _REQUESTS[dialect](answer, listed, dict(sampling))
    if tools is not None:
        body["tools"] = tools
    return url, body


def dumped(value: object) -> object:
    """What an SDK's object is as JSON; None when it is no such object."""
    ways: list[tuple[str, dict[str, Any]]] = [
        ("model_dump", {"mode": "json", "by_alias": True, "exclude_unset": True, "warnings": False}),
        ("to_dict", {}),
        ("model_dump", {}),
        ("to_json", {}),
    ]
    for name, options in ways:
        # Looked up on the type: an object that answers to every name, as a mock does, is not taken for one of these.
        if callable(getattr(type(value), name, None)):
            try:
                found = getattr(value, name)(**options)
            except (TypeError, ValueError):
                continue
            return json.loads(found) if isinstance(found, str | bytes) else found
    return None


def _described(value: object) -> str:
    if hasattr(value, "__await__"):
        return "a coroutine that was not awaited"
    if isinstance(value, dict):
        return f"an object with the fields {', '.join(map(str, list(value)[:6])) or '(none)'}"
    if hasattr(value, "__next__") or hasattr(value, "__anext__"):
        return "a stream: record it with sdk.wrap, or give the whole answer"
    return f"of type {type(value).__name__}"


def _chat(answer: Mapping[str, Any], messages: list[dict[str, Any]], sampling: dict[str, Any]) -> Asked:
    return "https://api.openai.com/v1/chat/completions", {
        "model": answer.get("model"),
        "messages": messages,
        **sampling,
    }


def _responses(answer: Mapping[str, Any], messages: list[dict[str, Any]], sampling: dict[str, Any]) -> Asked:
    echoed = ("model", "previous_response_id", "tools", "instructions")
    said = {name: answer[name] for name in echoed if answer.get(name)}
    first = messages[0]
    if first.get("role") in ("system", "developer") and first.get("content") == said.get("instructions"):
        messages = messages[1:]  # the same words: the model saw them once
    return "https://api.openai.com/v1/responses", {**said, "input": messages, **sampling}


def _anthropic(answer: Mapping[str, Any], messages: list[dict[str, Any]], sampling: dict[str, Any]) -> Asked:
    return "https://api.anthropic.com/v1/messages", {"model": answer.get("model"), "messages": messages, **sampling}


def _gemini(answer: Mapping[str, Any], messages: list[dict[str, Any]], sampling: dict[str, Any]) -> Asked:
    system = [_content(message, 0) for message in messages if message.get("role") == "system"]
    contents = [_content(message, n) for n, message in enumerate(messages) if message.get("role") != "system"]
    body: dict[str, Any] = {"contents": contents}
    if system:
        body["systemInstruction"] = {"parts": [part for content in system for part in content["parts"]]}
    if sampling:
        body["generationConfig"] = sampling
    model = str(answer.get("modelVersion") or "gemini")
    return f"https://generativelanguage.googleapis.com/v1beta/models/{model}:generateContent", body


def _content(message: dict[str, Any], number: int) -> dict[str, Any]:
    if isinstance(message.get("parts"), list):
        return {**message, "parts": [_camel(part) for part in message["parts"]]}
    if not isinstance(message.get("content"), str) or message.get("tool_calls"):
        raise InvalidRecord(f"messages[{number}]", "with an answer of Gemini, give it as a content: role and parts")
    role = "model" if message.get("role") == "assistant" else message.get("role")
    return {"role": role, "parts": [{"text": message["content"]}]}


_FREE = frozenset({"args", "response"})
"""What a model or a tool made up: names in there are nobody's to change."""


def _camel(value: Any) -> Any:
    """Gemini's names as they are on the wire; in Python its SDKs say `usage_metadata`."""
    if isinstance(value, dict):
        named = ((_humped(name), inner) for name, inner in value.items())
        return {name: inner if name in _FREE else _camel(inner) for name, inner in named if inner is not None}
    return [_camel(inner) for inner in value] if isinstance(value, list) else value


def _humped(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other[:1].upper() + other[1:] for other in others)


_Form = tuple[Callable[[dict[str, Any]], bool], str]
_FORMS: dict[str, _Form] = {
    "openai.chat": (
        lambda body: (
            body.get("object") == "chat.completion" or ("object" not in body and isinstance(body.get("choices"), list))
        ),
        "choices",
    ),
    "openai.responses": (lambda body: body.get("object") == "response", "output"),
    "anthropic.messages": (lambda body: body.get("type") == "message" and body.get("role") == "assistant", "content"),
    "gemini": (lambda body: "candidates" in body, "candidates"),
}
_REQUESTS: dict[str, Callable[[Mapping[str, Any], list[dict[str, Any]], dict[str, Any]], Asked]] = {
    "openai.chat": _chat,
    "openai.responses": _responses,
    "anthropic.messages": _anthropic,
    "gemini": _gemini,
}
