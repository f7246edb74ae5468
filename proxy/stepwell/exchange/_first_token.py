"""When the first token of a streamed answer came: with the piece after which the dialect reads that something was said.

Capture notes when each of the first pieces arrived (`Response.marks`) and parses nothing. Here the beginnings of the answer are read
like any answer that was cut, so that no dialect needs to know of it.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace

from stepwell.exchange._dialect import Dialect, NoStep, Unparseable
from stepwell.exchange._raw import Exchange, header
from stepwell.sdk.records import Step

_LINEAR = 3
"""Beginnings that are tried one after the other: it is nearly always one of them."""
_LEAST = {
    "openai.completions": b'{"prompt":""}',
    "openai.responses": b'{"input":[]}',
    "gemini": b'{"contents":[]}',
    "ollama.generate": b'{"prompt":""}',
    "engine.generate": b'{"text":"","prompt":""}',
}
"""Requests to read the beginnings with: the one that was sent may be a megabyte, and says nothing about when."""
_SPOKEN = ("text", "reasoning", "refusal")


def first_token_ns(dialect: Dialect, exchange: Exchange) -> int | None:
    """ns since the epoch, for an exchange whose bodies are decoded; None where the pieces do not tell (a plain or compressed answer)."""
    response = exchange.response
    if len(response.marks) < 2 or header(response.headers, "content-encoding"):
        return None
    least = replace(exchange.request, body=_LEAST.get(dialect.name, b'{"messages":[]}'))

    def said(end: int) -> bool:
        cut = replace(response, body=response.body[:end], end="upstream_error", marks=())
        return _says(dialect, replace(exchange, request=least, response=cut))

    ends = [start for start, _ in response.marks[1:]]
    place = next((place for place, end in enumerate(ends[:_LINEAR]) if said(end)), None)
    if place is None:
        place = bisect_left(ends, True, lo=min(_LINEAR, len(ends)), key=said)
    return response.marks[place][1] if place < len(ends) else None


def _says(dialect: Dialect, exchange: Exchange) -> bool:
    try:
        steps = dialect.parse(exchange)
    except (Unparseable, NoStep):
        return False
    return any(_has_words(step) for step in steps)


def _has_words(step: Step) -> bool:
    content = (step.response or {}).get("content") or []
    return any(part.get("text") or part["type"] not in _SPOKEN for part in content)
