"""Choices of the completions API: a text with logprobs in their old form, and the ids that engines add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any

from stepwell.exchange._canonical import Message, Part
from stepwell.exchange._chat.messages import canonical_message
from stepwell.exchange._chat.reply import Reply
from stepwell.exchange._chat.tokens import left_over, named_id, policy_of, tokens_of
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Choice, Tokens

_REASONING = ("reasoning", "reasoning_content")
_MODELLED = frozenset(
    {"index", "text", "message", "finish_reason", "token_ids", "response_token_ids", "prompt_token_ids", *_REASONING}
)


def choice_of(reply: Reply, index: int, prompt_ids: list[int] | None, echoed: str, *, counted: bool) -> Choice:
    """One choice. `echoed`: the prompt's text where the answer repeats it; `counted`: usage counts this choice alone."""
    choice = reply.choices[index]
    finish_reason = choice.get("finish_reason") or None
    tokens = _tokens(reply.root, choice, prompt_ids, counted_tokens(reply) if counted else None)
    version, label = policy_of(reply.root, choice)
    kept = {key: value for key, value in choice.items() if key not in _MODELLED and value is not None}
    return Choice(
        message=_message(choice, echoed),
        index=index,
        finish_reason=finish_reason,
        cut=finish_reason in ("length", "abort"),
        failed=finish_reason == "error" or bool(choice.get("error")),
        tokens=tokens,
        policy_version=version,
        policy_label=label,
        extra={**kept, **left_over(choice, tokens)},
    )


def counted_tokens(reply: Reply) -> int | None:
    """How many tokens usage counts, of all choices together."""
    usage = reply.root.get("usage")
    count = usage.get("completion_tokens") if isinstance(usage, Mapping) else None
    return count if type(count) is int else None


def _message(choice: Mapping[str, Any], echoed: str) -> Message:
    """The text as the assistant's; some compatibles answer with a chat message instead."""
    text = choice.get("text")
    if not isinstance(text, str | None):
        raise Unparseable("a choice's text is no text")
    said = {name: choice[name] for name in _REASONING if choice.get(name)}
    try:
        message = canonical_message({**choice["message"], **said, "role": "assistant"})
    except ValueError as error:
        raise Unparseable(f"the answer's message cannot be read: {error}") from None
    if not text:
        return message
    thoughts = [part for part in message["content"] if part["type"] == "reasoning"]
    return {**message, "content": [*thoughts, *_texts(text, echoed)]}


def _texts(text: str, echoed: str) -> list[Part]:
    if not echoed or not text.startswith(echoed):
        return [{"type": "text", "text": text}]
    repeated: Part = {"type": "text", "text": echoed, "extra": {"echo": True}}
    own = text[len(echoed) :]
    return [repeated, *([{"type": "text", "text": own}] if own else [])]


def _tokens(
    root: Mapping[str, Any], choice: Mapping[str, Any], prompt_ids: list[int] | None, count: int | None
) -> Tokens:
    """The engine's ids of the prompt go before those that were asked with: it may have cut them."""
    known = choice.get("prompt_token_ids") or root.get("prompt_token_ids") or prompt_ids
    entries = _entries(choice.get("logprobs"))
    ids = choice.get("token_ids") or choice.get("response_token_ids")
    if isinstance(known, list) and isinstance(ids, list) and len(entries) == len(known) + len(ids):
        entries = entries[len(known) :]  # an echo has logprobs of the prompt as well
    logprobs = {"content": entries} if entries else None
    return tokens_of({**root, "prompt_token_ids": known}, {**choice, "logprobs": logprobs}, count)


def _entries(logprobs: object) -> Sequence[Any]:
    """Logprobs as chat has them: an entry per token. The old form has a list of tokens and a list of logprobs."""
    if not isinstance(logprobs, Mapping):
        return []
    if isinstance(content := logprobs.get("content"), list):
        return content
    values, tokens = logprobs.get("token_logprobs"), logprobs.get("tokens")
    if not isinstance(values, list):
        return []
    named = zip_longest(values, tokens if isinstance(tokens, list) else [], fillvalue=None)
    return [_entry(value, token) for value, token in named]


def _entry(value: object, token: object) -> dict[str, Any]:
    entry = {"logprob": value, "token": token}
    id_ = named_id(entry)
    return entry if id_ is None else {**entry, "id": id_}
