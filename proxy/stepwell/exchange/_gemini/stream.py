"""The objects that a streamed answer consists of: as events (`alt=sse`), or as a JSON array, cut anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from stepwell.exchange._body import partial_event
from stepwell.exchange._sse import parse_events

_TOKEN = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
"""A string, whole or cut, or a bracket. Possessive: each byte is looked at once, whatever the strings hold."""


def cut_array(body: bytes) -> Iterator[Any]:
    """The whole elements of a JSON array of which only the beginning came."""
    for element in elements(body):
        try:
            yield orjson.loads(element)
        except orjson.JSONDecodeError:
            return


def is_open(body: bytes) -> bool:
    """Whether a JSON array, or something in it, was begun and never closed: a server that stops ends its transfer in order."""
    depth = 0
    for token in _TOKEN.finditer(body):
        depth += (token[0] in (b"{", b"[")) - (token[0] in (b"}", b"]"))
    return depth > 0


def elements(body: bytes) -> Iterator[bytes]:
    """The objects and arrays in a JSON array of which only the beginning is there, each as its own bytes; in linear time."""
    depth = start = 0
    for token in _TOKEN.finditer(body):
        bracket = token[0]
        if bracket in (b"{", b"["):
            if depth == 1:
                start = token.start()
            depth += 1
        elif bracket in (b"}", b"]"):
            depth -= 1
            if depth == 1:
                yield body[start : token.end()]
            if depth < 1:
                return


def event_objects(body: bytes, whole: bool) -> Iterator[Any]:
    """What the events of a stream hold. Raises Unparseable when one is no JSON, although all of it came."""
    for event in parse_events(body):
        if (data := event.data.strip()) and data != b"[DONE]":
            try:
                value = orjson.loads(event.data)
            except orjson.JSONDecodeError as error:
                if (value := partial_event(event, whole, error)) is None:
                    return
            yield value if event.type != b"error" or _names_error(value) else {"error": value}
    # An error in mid-stream comes as bare JSON, in lines that are no event's.
    bare = 0 if body.startswith(b"{") else body.find(b"\n{") + 1
    if bare or body.startswith(b"{"):
        try:
            value = orjson.loads(body[bare:])
        except orjson.JSONDecodeError:
            return
        if _names_error(value):
            yield value


def _names_error(value: object) -> bool:
    return isinstance(value, dict) and bool(value.get("error"))
