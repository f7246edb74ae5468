"""JSON bodies: read as far as they go."""

from __future__ import annotations

from typing import Any

import orjson

from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._raw import Response
from stepwell.exchange._sse import Event


def request_object(body: bytes) -> dict[str, Any]:
    """The object that a request's body is. Raises Unparseable when it is none."""
    return json_object(body, "the request")


def json_object(text: bytes, what: str) -> dict[str, Any]:
    """The object that a JSON text is. Raises Unparseable, naming it `what`, when it is none."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unparseable(f"{what} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unparseable(f"{what} is no JSON object")
    return value


def is_whole(response: Response) -> bool:
    """Whether the transfer ended as it should and all of it was kept: only then is a body that cannot be read a fault."""
    return response.end == "complete" and not response.truncated


def partial_body(body: bytes, whole: bool, error: ValueError) -> dict[str, str]:
    """What is kept of an answer that is no JSON, as `error` says: its text, since it was cut in the middle.

    Raises:
        Unparseable: all of it came (`whole`).
    """
    if whole:
        raise Unparseable(f"the response is no JSON: {error}") from None
    return {"partial_body": body.decode(errors="replace")}


def partial_event(event: Event, whole: bool, error: ValueError) -> dict[str, str] | None:
    """What an event says that is no JSON, as `error` says: the words of an error; None where the stream was cut in the middle.

    Raises:
        Unparseable: all of the stream came (`whole`).
    """
    if event.type == b"error" and event.complete:
        return {"error": event.data.decode(errors="replace")}
    if event.complete and whole:
        raise Unparseable(f"an event of the stream is no JSON: {error}") from None
    return None


def loosely(body: bytes) -> Any:
    """What an error's body says: its `error` field, the whole value, or its first text."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return body.decode(errors="replace")[:4096] or "an error without a word"
    return (value.get("error") or value) if isinstance(value, dict) else value


def beside_error(body: bytes, *modelled: str) -> dict[str, Any]:
    """What an error's body holds beside its `error`, and beside the fields named: the id to ask the provider with."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return without(value, "error", *modelled) if isinstance(value, dict) and value.get("error") else {}


def without(value: dict[str, Any], *names: str) -> dict[str, Any]:
    """The fields that are neither named nor null."""
    return {key: kept for key, kept in value.items() if key not in names and kept is not None}
