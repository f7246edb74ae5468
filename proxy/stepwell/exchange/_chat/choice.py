"""One choice of a chat answer, put together from the pieces of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stepwell.exchange._chat.deltas import MessageDeltas
from stepwell.exchange._dialect import Unparseable

_TEXTS = ("text", "reasoning", "reasoning_content")
"""What choices of the completions API, which have no message, say in pieces."""
_LISTS = ("token_ids", "response_token_ids", "prompt_token_ids")


class StreamedChoice:
    """`add` every piece, then take the `whole`, which has every `token_ids` piece."""

    def __init__(self, index: int) -> None:
        self._fields: dict[str, Any] = {"index": index}
        self._texts: dict[str, list[str]] = {}
        self._lists: dict[str, list[Any]] = {}
        self._logprobs: dict[str, list[Any]] = {}
        self._deltas: MessageDeltas | None = None
        self._message: Mapping[str, Any] = {}

    def add(self, piece: Mapping[str, Any]) -> None:
        """Add one piece. Raises Unparseable when it is not what the API promises."""
        for key, value in piece.items():
            if value is None or key == "index":
                continue
            if key == "delta":
                self._add_delta(value)
            elif key == "message":
                self._message = message_of(value)
            elif key in _TEXTS and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif key in _LISTS:
                self._lists.setdefault(key, []).extend(listed(key, value))
            elif key == "logprobs":
                self._add_logprobs(value)
            elif key != "finish_reason" or value:
                self._fields[key] = value

    def _add_delta(self, delta: object) -> None:
        if not isinstance(delta, dict):
            raise Unparseable("a choice's delta is no object")
        if delta:
            self._deltas = self._deltas or MessageDeltas()
            self._deltas.add(delta)

    def _add_logprobs(self, logprobs: object) -> None:
        for name, entries in logprobs.items() if isinstance(logprobs, dict) else ():
            if isinstance(entries, list):
                self._logprobs.setdefault(name, []).extend(entries)

    def whole(self) -> dict[str, Any]:
        """The choice so far, in the form of a plain answer's."""
        # Some compatibles repeat the whole message so far beside each delta; only where no delta came is it the answer.
        message = self._message if self._deltas is None else self._deltas.message()
        logprobs = {"logprobs": self._logprobs} if self._logprobs else {}
        texts = {name: "".join(pieces) for name, pieces in self._texts.items()}
        return {**self._fields, **texts, **self._lists, **logprobs, "message": dict(message)}


def listed(name: str, value: object) -> Iterable[Any]:
    """The list that a field of an answer is. Raises Unparseable when it is none."""
    if not isinstance(value, list):
        raise Unparseable(f"an answer's {name} is no list")
    return value


def message_of(value: object) -> Mapping[str, Any]:
    """The message of a choice. Raises Unparseable when it is no object."""
    if not isinstance(value, Mapping):
        raise Unparseable("a choice's message is no object")
    return value
