"""An OpenAI chat answer, plain or streamed, put together into one reply.

The pieces of a stream are accumulated as plain dicts, keeping what the vendor's own accumulator loses: every `token_ids` piece,
tool deltas without an index, and the raw text of arguments that were cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._raw import Response, header
from stepwell.exchange._sse import Event, looks_like_events, parse_events

_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
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
    if value.get("error"):
        return Reply(root=_without(value, "error", "choices"), error=value["error"], terminated=True)
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices:
        raise Unparseable("the response has no choices")
    by_index = {_index(choice, place): _checked(choice, place) for place, choice in enumerate(choices)}
    return Reply(root=_without(value, "choices"), choices=by_index, terminated=True)


def _streamed(body: bytes, whole: bool) -> Reply:
    reply = Reply()
    for event in parse_events(body):
        if event.data.strip() == b"[DONE]":
            reply.terminated = True
            break
        chunk = _chunk(event, whole)
        if chunk is None:
            break
        _add_chunk(reply, chunk)
    if whole and not reply.root and reply.error is None:
        raise Unparseable("the event stream holds no event")
    finished = [choice.get("finish_reason") for choice in reply.choices.values()]
    reply.terminated = reply.terminated or bool(finished and all(finished))
    for choice in reply.choices.values():
        choice["message"] = _joined(choice["message"])
    return reply


def _chunk(event: Event, whole: bool) -> dict[str, Any] | None:
    try:
        chunk = orjson.loads(event.data)
    except orjson.JSONDecodeError as error:
        if event.complete and whole:
            raise Unparseable(f"an event of the stream is no JSON: {error}") from None
        return None  # cut in the middle of the event
    if not isinstance(chunk, dict):
        raise Unparseable("an event of the stream is no JSON object")
    return chunk


def _add_chunk(reply: Reply, chunk: dict[str, Any]) -> None:
    if chunk.get("error"):
        reply.error = chunk["error"]
    for key, value in chunk.items():
        # The first id, model and prompt ids that say something stand (Azure's first chunk has an empty model); usage is
        # cumulative, so its last value does.
        if key not in ("choices", "error") and value is not None and (key == "usage" or not reply.root.get(key)):
            reply.root[key] = value
    for place, choice in enumerate(chunk.get("choices") or ()):
        index = _index(choice, place)
        if not isinstance(choice.get("delta") or {}, Mapping):
            raise Unparseable("a choice's delta is no object")
        _add_choice(reply.choices.setdefault(index, {"index": index, "message": {}}), choice)


def _add_choice(choice: dict[str, Any], piece: Mapping[str, Any]) -> None:
    for key, value in piece.items():
        if value is None or key in ("index", "delta", "message"):  # some compatibles repeat the whole message so far
            continue
        if key in _LISTS and isinstance(value, list):
            choice.setdefault(key, []).extend(value)
        elif key == "logprobs" and isinstance(value, Mapping):
            kept = choice.setdefault("logprobs", {})
            for name, entries in value.items():
                if isinstance(entries, list):
                    kept.setdefault(name, []).extend(entries)
        else:
            choice[key] = value
    _add_delta(choice["message"], piece.get("delta") or {})


def _add_delta(message: dict[str, Any], delta: Mapping[str, Any]) -> None:
    for key, value in delta.items():
        if value is None:
            continue
        if key in _TEXTS and isinstance(value, str):
            message.setdefault(key, _Pieces()).append(value)
        elif key == "tool_calls" and isinstance(value, list):
            calls = message.setdefault("tool_calls", _Calls())
            for call in value:
                calls.add(call)
        elif key == "function_call" and isinstance(value, Mapping):
            _add_function(message.setdefault("function_call", {}), value)
        else:
            message[key] = value


class _Pieces(list[str]):
    """A text that comes in pieces, joined once at the end: adding strings would be quadratic."""


def _joined(value: Any) -> Any:
    """What was accumulated, with every text in one piece."""
    if isinstance(value, _Pieces):
        return "".join(value)
    if isinstance(value, _Calls):
        return [_joined(call) for call in value.items]
    if isinstance(value, dict):
        return {key: _joined(inner) for key, inner in value.items()}
    return value


class _Calls:
    """Tool calls from deltas. An index names its call; without one, an id opens a call and no id continues the last."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._by_index: dict[int, dict[str, Any]] = {}

    def add(self, delta: object) -> None:
        if not isinstance(delta, Mapping):
            raise Unparseable("a tool call's delta is no object")
        call = self._find(delta)
        for key, value in delta.items():
            if key == "function" and isinstance(value, Mapping):
                _add_function(call.setdefault("function", {}), value)
            elif value is not None and key != "index":
                call[key] = value

    def _find(self, delta: Mapping[str, Any]) -> dict[str, Any]:
        index, id_ = delta.get("index"), delta.get("id")
        if isinstance(index, int):
            known = self._by_index.get(index)
            # Some servers give every call of an answer index 0: another id is another call.
            if known is not None and (not id_ or known.get("id") in (None, id_)):
                return known
        elif self.items and (not id_ or self.items[-1].get("id") == id_):
            return self.items[-1]
        call: dict[str, Any] = {}
        self.items.append(call)
        if isinstance(index, int):
            self._by_index[index] = call
        return call


def _add_function(function: dict[str, Any], piece: Mapping[str, Any]) -> None:
    for key, value in piece.items():
        if key == "arguments" and isinstance(value, str):
            function.setdefault(key, _Pieces()).append(value)
        elif value:
            function[key] = value


def _index(choice: object, place: int) -> int:
    if not isinstance(choice, Mapping):
        raise Unparseable("a choice is no object")
    index = choice.get("index")
    return index if isinstance(index, int) else place


def _checked(choice: dict[str, Any], place: int) -> dict[str, Any]:
    """A choice whose index and message are there: a filtered one comes without a message."""
    message = choice.get("message") or {}
    if not isinstance(message, Mapping):
        raise Unparseable("a choice's message is no object")
    return {**choice, "index": _index(choice, place), "message": message}


def _without(value: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {key: kept for key, kept in value.items() if key not in names and kept is not None}


def _loosely(body: bytes) -> Any:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode(errors="replace")[:4096]
    return value.get("error", value) if isinstance(value, dict) else value
