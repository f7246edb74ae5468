"""Which API an answer is of, where nobody recorded what was asked; and the least request that its dialect takes.

Told by what the answer itself says (names of fields, types of events), never by where it was found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import orjson

from stepwell.exchange._dialects import dialect_for
from stepwell.exchange._encoding import decoded
from stepwell.exchange._raw import Response, header
from stepwell.exchange._sse import looks_like_events, parse_events

_LOOKED_AT = 8
"""Events of a stream that are looked at: pings and comments may come first."""

LEAST: dict[str, tuple[str, bytes]] = {
    "chat": ("/v1/chat/completions", b'{"messages":[]}'),
    "completions": ("/v1/completions", b'{"prompt":""}'),
    "responses": ("/v1/responses", b'{"input":[]}'),
    "messages": ("/v1/messages", b'{"messages":[]}'),
    "gemini": ("/v1beta/models/unrecorded:generateContent", b'{"contents":[]}'),
    "ollama-chat": ("/api/chat", b'{"messages":[]}'),
    "ollama-generate": ("/api/generate", b'{"prompt":""}'),
    "converse": ("/model/unrecorded/converse", b'{"messages":[]}'),
    "converse-stream": ("/model/unrecorded/converse-stream", b'{"messages":[]}'),
    "invoke-stream": ("/model/unrecorded/invoke-with-response-stream", b'{"messages":[]}'),
}
"""Path and body of a request, by API."""


def least_request(response: Response) -> tuple[str, bytes] | None:
    """Path and body of a request that `response` may be the answer to; None when it is of no known API."""
    api = _api_of(response)
    return LEAST[api] if api else None


def least_body(method: str, path: str) -> bytes:
    """A body for a request that was recorded without its own."""
    dialect = dialect_for(method, path)
    return next((body for like, body in LEAST.values() if dialect_for("POST", like) is dialect), b'{"messages":[]}')


def _api_of(response: Response) -> str | None:
    content_type, body = header(response.headers, "content-type"), decoded(response.body, response.headers).body
    if content_type.startswith("application/vnd.amazon.eventstream") or body.startswith(b"\0"):
        return "converse-stream" if b"messageStart" in body or b"contentBlock" in body else "invoke-stream"
    for value in _values(content_type, body):
        for api, says_so in _SIGNS.items():
            if says_so(value):
                return api
    return None


def _values(content_type: str, body: bytes) -> Iterator[dict[str, Any]]:
    """The first JSON objects of a body: of an event stream, of lines, or the one it is."""
    if looks_like_events(content_type, body):
        texts: Iterator[bytes] = (event.data for event in islice(parse_events(body), _LOOKED_AT))
    else:
        texts = iter((body, body.lstrip().partition(b"\n")[0]))
    for text in texts:
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        value = value[0] if isinstance(value, list) and value else value
        if isinstance(value, dict):
            yield value


def _is_chat(value: dict[str, Any]) -> bool:
    return _named(value, "object", "chat.completion") or bool(_first_choice(value).keys() & {"message", "delta"})


def _is_completion(value: dict[str, Any]) -> bool:
    return _named(value, "object", "text_completion") or "text" in _first_choice(value)


def _is_responses(value: dict[str, Any]) -> bool:
    return value.get("object") == "response" or _named(value, "type", "response.")


def _is_messages(value: dict[str, Any]) -> bool:
    if value.get("type") == "error":
        return isinstance(value.get("error"), dict) and "status" not in value
    return (value.get("type") == "message" and "role" in value) or _named(
        value, "type", "message_start", "content_block_", "message_delta"
    )


def _is_gemini(value: dict[str, Any]) -> bool:
    error = value.get("error")
    failed = isinstance(error, dict) and type(error.get("code")) is int and isinstance(error.get("status"), str)
    return failed or bool(value.keys() & {"candidates", "promptFeedback", "usageMetadata"})


def _is_ollama(value: dict[str, Any], kind: type, field: str) -> bool:
    return isinstance(value.get(field), kind) and bool(value.keys() & {"created_at", "done"})


def _is_converse(value: dict[str, Any]) -> bool:
    output = value.get("output")
    return "stopReason" in value or (isinstance(output, dict) and isinstance(output.get("message"), dict))


_SIGNS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "responses": _is_responses,
    "messages": _is_messages,
    "chat": _is_chat,
    "completions": _is_completion,
    "gemini": _is_gemini,
    "ollama-chat": lambda value: _is_ollama(value, dict, "message"),
    "ollama-generate": lambda value: _is_ollama(value, str, "response"),
    "converse": _is_converse,
}


def _named(value: dict[str, Any], field: str, *beginnings: str) -> bool:
    name = value.get(field)
    return isinstance(name, str) and name.startswith(beginnings)


def _first_choice(value: dict[str, Any]) -> dict[str, Any]:
    choices = value.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    return first if isinstance(first, dict) else {}
