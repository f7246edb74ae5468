"""Ollama's own API: `/api/chat` and `/api/generate`, plain and as lines of JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stepwell.exchange._body import request_object
from stepwell.exchange._canonical import Message, Part
from stepwell.exchange._dialect import NoStep, Unparseable, WithoutFlags
from stepwell.exchange._generation import Answer, Asked, steps_of
from stepwell.exchange._ollama.messages import canonical_message, image_part
from stepwell.exchange._ollama.rebuild import chat_answer, chat_request, generate_answer, generate_request
from stepwell.exchange._ollama.reply import read_answer
from stepwell.exchange._raw import Exchange
from stepwell.sdk.records import Step

_KEPT = frozenset({"stream", "keep_alive", "template", "raw", "context"})
"""Fields that are no parameters of sampling. `context` holds the ids of an earlier answer with its prompt: not what was sampled."""
_SAID = frozenset({"model", "messages", "tools", "prompt", "system", "suffix", "images"})


class OllamaChat(WithoutFlags):
    """`POST …/api/chat`. Ollama can give logprobs, which train nothing without ids."""

    name = "ollama.chat"

    def matches(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/api/chat")

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        body = request_object(exchange.request.body)
        return _steps(exchange, _asked(exchange, body, _messages(body)), generate=False)

    def request_of(self, step: Step) -> dict[str, Any]:
        return chat_request(step)

    def answer_of(self, steps: Sequence[Step]) -> dict[str, Any]:
        return chat_answer(steps[0])


class OllamaGenerate(WithoutFlags):
    """`POST …/api/generate`: one prompt, as a user's message."""

    name = "ollama.generate"

    def matches(self, method: str, path: str) -> bool:
        return method == "POST" and path.endswith("/api/generate")

    def parse(self, exchange: Exchange) -> Sequence[Step]:
        body = request_object(exchange.request.body)
        return _steps(exchange, _asked(exchange, body, _prompt(body)), generate=True)

    def request_of(self, step: Step) -> dict[str, Any]:
        return generate_request(step)

    def answer_of(self, steps: Sequence[Step]) -> dict[str, Any]:
        return generate_answer(steps[0])


def _asked(exchange: Exchange, body: dict[str, Any], messages: list[Message]) -> Asked:
    unsampled = _KEPT | _SAID | set(exchange.added)
    return Asked(
        messages=messages,
        tools=body.get("tools") or None,
        sampling={key: value for key, value in body.items() if key not in unsampled and value is not None},
        model=body.get("model"),
        extra={key: value for key, value in body.items() if key in _KEPT and value is not None},
    )


def _messages(body: Mapping[str, Any]) -> list[Message]:
    messages = body.get("messages")
    if not isinstance(messages, list | None):
        raise Unparseable("the request's messages is no list")
    try:
        return [canonical_message(message) for message in messages or ()]
    except ValueError as error:
        raise Unparseable(f"a message of the request cannot be read: {error}") from None


def _prompt(body: Mapping[str, Any]) -> list[Message]:
    """The system's text first; what comes after the answer (`suffix`) is said with the prompt, and marked."""
    system, prompt, suffix = (_text(body, name) for name in ("system", "prompt", "suffix"))
    images = body.get("images") or []
    if not isinstance(images, list):
        raise Unparseable("the request's images is no list")
    said: list[Part] = [image_part(image) for image in images]
    said += [{"type": "text", "text": prompt}] if prompt else []
    said += [{"type": "text", "text": suffix, "extra": {"field": "suffix"}}] if suffix else []
    first: list[Message] = [{"role": "system", "content": [{"type": "text", "text": system}]}] if system else []
    return [*first, *([{"role": "user", "content": said}] if said else [])]


def _text(body: Mapping[str, Any], name: str) -> str:
    text = body.get(name)
    if not isinstance(text, str | None):
        raise Unparseable(f"the request's {name} is no text")
    return text or ""


def _steps(exchange: Exchange, asked: Asked, *, generate: bool) -> Sequence[Step]:
    answer = read_answer(exchange.response, generate=generate)
    if reason := _only_loaded(asked, answer):
        raise NoStep(reason)
    return steps_of(exchange, asked, answer)


def _only_loaded(asked: Asked, answer: Answer) -> str | None:
    """A call without words loads the model, or with `keep_alive` 0 unloads it; older servers give it no reason."""
    if not answer.terminated or answer.error is not None or any(choice.message["content"] for choice in answer.choices):
        return None
    reasons = [choice.finish_reason for choice in answer.choices]
    if "load" in reasons or "unload" in reasons:
        return f"the model was {reasons[0]}ed, and nothing was asked of it"
    return (
        None
        if asked.messages or answer.usage or any(reasons)
        else "nothing was asked of the model, and it said nothing"
    )
