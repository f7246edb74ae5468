"""A Responses answer, plain, as an event stream or as the frames of a WebSocket, read into one reply."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from stepwell.exchange._body import is_whole, loosely, partial_body, partial_event, without
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._raw import Response, header
from stepwell.exchange._responses.deltas import OutputDeltas
from stepwell.exchange._sse import Event, looks_like_events, parse_events

PENDING = ("queued", "in_progress")
_BEGINNINGS = ("response.created", "response.in_progress", "response.queued")
_TERMINAL = ("response.completed", "response.incomplete", "response.failed", "response.cancelled", "response.done")
_SILENT = ("keepalive", "ping", "response.keepalive", "response.ping")


@dataclass(slots=True)
class Reply:
    """What came back: the response object without output and error, its items, whether it ended as the protocol says."""

    root: dict[str, Any] = field(default_factory=dict)
    output: list[Any] = field(default_factory=list)
    terminated: bool = False
    error: Any = None
    streamed: bool = False

    @property
    def status(self) -> Any:
        return self.root.get("status")


def read_reply(response: Response) -> Reply:
    """The reply in a decoded response. What ended early gives what there was.

    Raises:
        Unparseable: it ended as it should, and is not what the API promises.
    """
    body = response.body
    whole = is_whole(response)
    if response.status is None or (not body.strip() and not whole):
        return Reply()
    if response.status >= 400:
        return Reply(terminated=whole, error=loosely(body))
    kind = header(response.headers, "content-type").lower()
    if response.status == 101 or kind.startswith("application/x-ndjson"):
        return _streamed(_frames(body), whole)
    if looks_like_events(kind, body):
        return _streamed(parse_events(body), whole)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        return Reply(root=partial_body(body, whole, error))
    return _plain(value)


def _plain(value: object) -> Reply:
    if not isinstance(value, dict):
        raise Unparseable("the response is no JSON object")
    error = value.get("error") or (dict(value) if value.get("object") == "error" else None)
    output = value.get("output")
    if output is None and (error or value.get("status") in (*PENDING, "failed", "cancelled")):
        output = []
    ended = value.get("status") not in PENDING
    return Reply(root=without(value, "output", "error"), output=_items(output), terminated=ended, error=error)


def _items(output: object) -> list[Any]:
    if not isinstance(output, list):
        raise Unparseable("the response has no list of output items")
    return output


def _frames(body: bytes) -> Iterator[Event]:
    """Each message of the socket as an event: one JSON text a line."""
    return (Event(line) for line in body.splitlines() if line.strip())


def _streamed(events: Iterable[Event], whole: bool) -> Reply:
    reply = Reply(streamed=True)
    deltas = OutputDeltas()
    others: list[Any] = []
    for event in events:
        data = event.data.strip()
        if data == b"[DONE]":
            break
        try:
            said = _said(event, whole) if data else {}
            if said is None or (said and _add(reply, deltas, others, said)):
                break
        except Unparseable:
            if whole:
                raise
            break  # what came before stands
    reply.output = reply.output or deltas.items()
    if others:
        reply.root["events"] = others
    if whole and not (reply.terminated or reply.output or reply.root.get("object") or reply.root.get("id")):
        raise Unparseable("the event stream holds no response")
    return reply


def _add(reply: Reply, deltas: OutputDeltas, others: list[Any], said: Mapping[str, Any]) -> bool:
    """Add one event; True when it is the last one."""
    kind = said.get("type")
    if kind in _BEGINNINGS or kind in _TERMINAL:
        return _add_response(reply, str(kind), said.get("response"))
    if kind == "error" or (kind is None and said.get("error")):
        reply.error = said.get("error") or without(dict(said), "type", "sequence_number") or "an error without a word"
        reply.terminated = True
    elif not isinstance(kind, str) or (not deltas.add(kind, said) and kind not in _SILENT):
        others.append(said)
    return False


def _add_response(reply: Reply, kind: str, response: object) -> bool:
    if response is not None and not isinstance(response, Mapping):
        raise Unparseable("an event's response is no object")
    said = dict(response or {})
    reply.root.update(without(said, "output", "error"))
    if error := said.get("error"):
        if reply.error is None:
            reply.error = error
        elif reply.error != error:
            reply.root["error"] = error  # a client has seen what the event told first: this stays beside it
    if kind not in _TERMINAL:
        return False
    if not said.get("status") and kind != "response.done":
        reply.root["status"] = kind.removeprefix("response.")
    reply.output = _items(said.get("output") or [])
    reply.terminated = True
    return True


def _said(event: Event, whole: bool) -> dict[str, Any] | None:
    """What an event says; None when the stream was cut in the middle of it."""
    try:
        said = orjson.loads(event.data)
    except orjson.JSONDecodeError as error:
        if (said := partial_event(event, whole, error)) is None:
            return None
    if not isinstance(said, dict):
        raise Unparseable("an event of the stream is no JSON object")
    if event.type and not isinstance(said.get("type"), str):  # some servers name it in the event's head only
        return {**said, "type": event.type.decode(errors="replace")}
    return said
