"""Ollama's answers: one JSON object, or one a line, put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from stepwell.exchange._body import is_whole, loosely
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._generation import Answer, Choice
from stepwell.exchange._ollama.messages import canonical_message
from stepwell.exchange._raw import Response

_TEXTS = ("content", "thinking")
_LISTS = ("tool_calls", "images")
_COUNTERS = ("_count", "_duration")


@dataclass(slots=True)
class _Pieces:
    """What came so far. Texts are joined once, at the end."""

    root: dict[str, Any] = field(default_factory=dict)
    texts: dict[str, list[str]] = field(default_factory=dict)
    lists: dict[str, list[Any]] = field(default_factory=dict)
    message: dict[str, Any] = field(default_factory=dict)
    error: Any = None
    seen: bool = False
    """Any piece of an answer came."""


def read_answer(response: Response, *, generate: bool) -> Answer:
    """The answer in a decoded response of `/api/chat`, or of `/api/generate`. What ended early gives what there was.

    Raises:
        Unparseable: it ended as it should, and is not what the API promises.
    """
    whole = is_whole(response)
    if response.status is None or (not response.body.strip() and not whole):
        return Answer()
    if response.status >= 400:
        return Answer(terminated=whole, error=loosely(response.body))
    pieces = _Pieces()
    try:
        for value in _objects(response.body, whole):
            _add(pieces, value, generate)
    except Unparseable:
        if whole:
            raise  # else what came before it stands
    if whole and not pieces.seen and pieces.error is None:
        raise Unparseable("the response holds no piece of an answer")
    return _answer(pieces)


def _objects(body: bytes, whole: bool) -> Iterator[dict[str, Any]]:
    """The objects of an answer: the body itself where it is one, else its lines. A last line that was cut says nothing."""
    try:
        values = [orjson.loads(body)]
    except orjson.JSONDecodeError:
        values = None
    for value in values if values is not None else _lines(body, whole):
        if not isinstance(value, dict):
            raise Unparseable("a line of the response is no JSON object")
        yield value


def _lines(body: bytes, whole: bool) -> Iterator[Any]:
    before = False
    for line in body.splitlines(keepends=True):  # on bytes: exactly LF, CRLF and CR
        if not line.strip():
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            stopped = before and not line.endswith((b"\n", b"\r"))  # in the middle of it
            if whole and not stopped:
                raise Unparseable(f"a line of the response is no JSON: {error}") from None
            return
        before = True
        yield value


def _add(pieces: _Pieces, value: dict[str, Any], generate: bool) -> None:
    own = ("response", *_TEXTS[1:], *_LISTS) if generate else ("message",)
    if value.get("error"):
        pieces.error = value["error"]
    elif any(value.get(name) is not None for name in own) or value.get("done"):
        pieces.seen = True
    for key, inner in value.items():
        if inner is None or key == "error":
            continue
        if key == "logprobs" and isinstance(inner, list):
            pieces.lists.setdefault(key, []).extend(inner)
        elif key not in own:
            pieces.root[key] = inner  # counters and the reason come with the last object
    generated = {"content" if name == "response" else name: value.get(name) for name in own}
    said = generated if generate else value.get("message") or {}
    if not isinstance(said, Mapping):
        raise Unparseable("an answer's message is no object")
    _add_message(pieces, said)


def _add_message(pieces: _Pieces, said: Mapping[str, Any]) -> None:
    for key, value in said.items():
        if value is None:
            continue
        if key in _TEXTS:
            if not isinstance(value, str):
                raise Unparseable(f"an answer's {key} is no text")
            pieces.texts.setdefault(key, []).append(value)
        elif key in _LISTS:
            if not isinstance(value, list):
                raise Unparseable(f"an answer's {key} is no list")
            pieces.lists.setdefault(key, []).extend(value)
        else:
            pieces.message[key] = value


def _answer(pieces: _Pieces) -> Answer:
    root = dict(pieces.root)
    model, done, reason = root.pop("model", None), root.pop("done", None), root.pop("done_reason", None)
    usage = {key: root.pop(key) for key in list(root) if key.endswith(_COUNTERS)}
    choices = [_choice(pieces, reason)] if pieces.seen else []
    return Answer(
        choices=choices,
        model=model,
        usage=usage or None,
        terminated=done is True,
        error=pieces.error,
        extra=root,
    )


def _choice(pieces: _Pieces, reason: Any) -> Choice:
    message = {**pieces.message, **{key: "".join(texts) for key, texts in pieces.texts.items()}}
    message |= {key: pieces.lists[key] for key in _LISTS if key in pieces.lists}
    try:
        said = canonical_message({**message, "role": message.get("role") or "assistant"})
    except ValueError as error:
        raise Unparseable(f"the answer's message cannot be read: {error}") from None
    logprobs = pieces.lists.get("logprobs")
    extra = {"logprobs": logprobs} if logprobs else {}
    return Choice(message=said, finish_reason=reason, cut=reason == "length", extra=extra)
