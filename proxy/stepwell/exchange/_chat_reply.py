"""An OpenAI chat answer, plain or streamed, put together into one reply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from stepwell.exchange._chat_deltas import MessageDeltas
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._raw import Response, header
from stepwell.exchange._sse import Event, looks_like_events, parse_events

_LISTS = ("token_ids", "response_token_ids", "prompt_token_ids")


@dataclass(slots=True)
class Reply:
    """What came back: the root's fields, the choices by index, whether it ended as the protocol says, an error if it held one."""

    root: dict[str, Any] = field(default_factory=dict)
    choices: dict[int, dict[str, Any]] = field(default_factory=dict)
    terminated: bool = False
    error: Any = None


def read_reply(response: Response) -> Reply:
    """The reply in a decoded response. What ended early gives what there was.

    Raises:
        Unparseable: it ended as it should, and is not what the API promises.
    """
    body = response.body
    whole = response.end == "complete" and not response.truncated
    if response.status is None or (not body.strip() and not whole):
        return Reply()
    if response.status >= 400:
        return Reply(terminated=whole, error=_loosely(body))
    if looks_like_events(header(response.headers, "content-type"), body):
        return _streamed(body, whole)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if whole:
            raise Unparseable(f"the response is no JSON: {error}") from None
        return Reply(root={"partial_body": body.decode(errors="replace")})
    return _plain(value)


def _plain(value: object) -> Reply:
    if not isinstance(value, dict):
        raise Unparseable("the response is no JSON object")
    if error := _error(value):
        return Reply(root=_without(value, "error", "choices"), error=error, terminated=True)
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices:
        raise Unparseable("the response has no choices")
    return Reply(root=_without(value, "choices"), choices=_by_index(choices), terminated=True)


def _error(value: Mapping[str, Any]) -> Any:
    """The error in an answer that came with status 200: under its name, or as older vLLM has it, as the whole object."""
    return value.get("error") or (dict(value) if value.get("object") == "error" else None)


def _by_index(choices: list[Any]) -> dict[int, dict[str, Any]]:
    indices = [_index(choice, place) for place, choice in enumerate(choices)]
    if len(set(indices)) < len(indices):  # servers that number all of them 0 must not cost all but the last
        indices = list(range(len(choices)))
    return {index: _checked(choice, index) for index, choice in zip(indices, choices, strict=True)}


class _StreamedChoice:
    """One choice from the pieces of a stream, every `token_ids` piece among them."""

    def __init__(self, index: int) -> None:
        self._fields: dict[str, Any] = {"index": index}
        self._lists: dict[str, list[Any]] = {}
        self._logprobs: dict[str, list[Any]] = {}
        self._deltas: MessageDeltas | None = None
        self._message: Mapping[str, Any] = {}

    def add(self, piece: Mapping[str, Any]) -> None:
        for key, value in piece.items():
            if value is None or key == "index":
                continue
            if key == "delta":
                self._add_delta(value)
            elif key == "message":
                self._message = _message(value)
            elif key in _LISTS:
                self._lists.setdefault(key, []).extend(_listed(key, value))
            elif key == "logprobs":
                self._add_logprobs(value)
            elif key != "finish_reason" or value:
                self._fields[key] = value

    def _add_delta(self, delta: object) -> None:
        if not isinstance(delta, Mapping):
            raise Unparseable("a choice's delta is no object")
        if delta:
            self._deltas = self._deltas or MessageDeltas()
            self._deltas.add(delta)

    def _add_logprobs(self, logprobs: object) -> None:
        for name, entries in logprobs.items() if isinstance(logprobs, Mapping) else ():
            if isinstance(entries, list):
                self._logprobs.setdefault(name, []).extend(entries)

    def whole(self) -> dict[str, Any]:
        # Some compatibles repeat the whole message so far beside each delta; only where no delta came is it the answer.
        message = self._message if self._deltas is None else self._deltas.message()
        logprobs = {"logprobs": self._logprobs} if self._logprobs else {}
        return {**self._fields, **self._lists, **logprobs, "message": dict(message)}


def _streamed(body: bytes, whole: bool) -> Reply:
    reply = Reply()
    choices: dict[int, _StreamedChoice] = {}
    for event in parse_events(body):
        data = event.data.strip()
        if data == b"[DONE]":
            reply.terminated = True
            break
        chunk = _chunk(event, whole) if data else {}
        if chunk is None:
            break
        _add_chunk(reply, choices, chunk)
    reply.choices = {index: choice.whole() for index, choice in choices.items()}
    finished = [choice.get("finish_reason") for choice in reply.choices.values()]
    reply.terminated = reply.terminated or bool(finished and all(finished))
    if whole and not choices and reply.error is None and (reply.terminated or not reply.root):
        raise Unparseable("the event stream holds no choice")
    return reply


def _chunk(event: Event, whole: bool) -> dict[str, Any] | None:
    try:
        chunk = orjson.loads(event.data)
    except orjson.JSONDecodeError as error:
        if event.type == b"error" and event.complete:
            return {"error": event.data.decode(errors="replace")}
        if event.complete and whole:
            raise Unparseable(f"an event of the stream is no JSON: {error}") from None
        return None  # cut in the middle of the event
    if event.type == b"error" and not (isinstance(chunk, dict) and chunk.get("error")):
        return {"error": chunk or "an error event without a word"}
    if not isinstance(chunk, dict):
        raise Unparseable("an event of the stream is no JSON object")
    return chunk


def _add_chunk(reply: Reply, choices: dict[int, _StreamedChoice], chunk: dict[str, Any]) -> None:
    reply.error = _error(chunk) or reply.error
    for key, value in chunk.items():
        # The first id, model and prompt ids that say something stand (Azure's first chunk has an empty model); usage is
        # cumulative, so its last value does.
        if key not in ("choices", "error") and value is not None and (key == "usage" or not reply.root.get(key)):
            reply.root[key] = value
    for place, piece in enumerate(_listed("choices", chunk.get("choices") or [])):
        index = _index(piece, place)
        if index not in choices:
            choices[index] = _StreamedChoice(index)
        choices[index].add(piece)


def _listed(name: str, value: object) -> Iterable[Any]:
    if not isinstance(value, list):
        raise Unparseable(f"an answer's {name} is no list")
    return value


def _index(choice: object, place: int) -> int:
    if not isinstance(choice, Mapping):
        raise Unparseable("a choice is no object")
    index = choice.get("index")
    return index if type(index) is int else place


def _checked(choice: dict[str, Any], index: int) -> dict[str, Any]:
    """A choice whose index and message are there: a filtered one comes without a message."""
    return {**choice, "index": index, "message": _message(choice.get("message") or {})}


def _message(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise Unparseable("a choice's message is no object")
    return value


def _without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: kept for key, kept in value.items() if key not in names and kept is not None}


def _loosely(body: bytes) -> Any:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode(errors="replace")[:4096]
    return value.get("error", value) if isinstance(value, dict) else value
