"""Whose protocol a body of Bedrock's invoke API speaks: told by its shape, since an ARN need not name the model behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from stepwell.exchange._bedrock.text import form_of

Family = Literal["anthropic", "nova", "chat", "cohere", "text"]

_NOVA = frozenset({"schemaVersion", "inferenceConfig", "toolConfig", "additionalModelRequestFields"})
_NOVA_EVENTS = frozenset(
    {"messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"}
)
_EMBEDDING_OPTIONS = frozenset({"dimensions", "normalize", "embeddingTypes", "embeddingConfig", "inputImage"})


def asked_family(body: Mapping[str, Any], model: str | None) -> Family:
    """The family of a request; the model's name is only asked where the shape says nothing."""
    if "messages" in body:
        if "anthropic_version" in body:
            return "anthropic"
        if body.keys() & _NOVA or _has_bare_blocks(body.get("system")) or _any_bare(body["messages"]):
            return "nova"
        return "anthropic" if "system" in body or "anthropic." in (model or "") else "chat"
    return "cohere" if isinstance(body.get("message"), str) else "text"


def _any_bare(messages: object) -> bool:
    if not isinstance(messages, list):
        return False
    return any(isinstance(message, Mapping) and _has_bare_blocks(message.get("content")) for message in messages)


def _has_bare_blocks(content: object) -> bool:
    """Converse's blocks have no `type`: their one key names their kind."""
    return isinstance(content, list) and any(isinstance(block, Mapping) and "type" not in block for block in content)


def answered_family(value: Mapping[str, Any]) -> Family | None:
    """The family of a plain answer, or of one event of a stream; None when it tells nothing."""
    if "completion" in value:
        return "text"
    if isinstance(value.get("type"), str):
        return "anthropic"
    if value.keys() & _NOVA_EVENTS or isinstance(value.get("output"), Mapping):
        return "nova"
    if "event_type" in value or ("text" in value and value.keys() & {"generation_id", "chat_history"}):
        return "cohere"
    choices = value.get("choices")
    if isinstance(choices, list):
        pieces = [choice for choice in choices if isinstance(choice, Mapping)]
        return "text" if any("text" in piece for piece in pieces) else "chat"
    return "text" if form_of(value) else None


def no_step(body: Mapping[str, Any], model: str | None) -> str | None:
    """Why a request is no generation of text: an embedding, a ranking, an image; None when it may be one."""
    named = model or ""
    if "messages" in body or isinstance(body.get("message"), str):
        return None
    if "embed" in named or "texts" in body or body.keys() & _EMBEDDING_OPTIONS:
        return "an embedding"
    if "query" in body and "documents" in body:
        return "a ranking"
    if "taskType" in body or "text_prompts" in body or "stability." in named:
        return "an image"
    return None


def no_answer(value: Mapping[str, Any]) -> str | None:
    """Why a whole answer is none of text."""
    if any(name.startswith("embedding") for name in value):
        return "an embedding"
    if "artifacts" in value or "images" in value:
        return "an image"
    results = value.get("results")
    first = results[0] if isinstance(results, list) and results else None
    return "a ranking" if isinstance(first, Mapping) and "outputText" not in first and "index" in first else None
