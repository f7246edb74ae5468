"""A Gemini answer, plain or streamed (as events, or as a JSON array), put together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from stepwell.exchange._body import is_whole, loosely, partial_body
from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._gemini.deltas import CandidateDeltas
from stepwell.exchange._gemini.messages import canonical_content
from stepwell.exchange._gemini.stream import cut_array, event_objects, is_open
from stepwell.exchange._gemini.words import block_reason, finish_reason, number, spelled
from stepwell.exchange._generation import Answer, Choice
from stepwell.exchange._raw import Response, header
from stepwell.exchange._sse import looks_like_events

_BOM = b"\xef\xbb\xbf"
_ROOT = frozenset({"candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId", "error"})
"""Fields of which any makes an object an answer."""


def read_answer(response: Response, *, vertex: bool) -> Answer:
    """The answer in a decoded response. What ended early gives what there was. `vertex`: whose numbers its enums have.

    Raises:
        Unparseable: it ended as it should, and is not what the API promises.
    """
    body, whole = response.body.removeprefix(_BOM).lstrip(), is_whole(response)
    if response.status is None or (not body and not whole):
        return Answer()
    if response.status >= 400:
        return Answer(error=_http_error(body), terminated=whole)
    events = looks_like_events(header(response.headers, "content-type"), body)
    if events and not body.startswith((b"{", b"[")):  # some label JSON as events
        return _streamed(event_objects(body, whole), whole, vertex)
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if body.startswith(b"[") and (not whole or is_open(body)):
            return _streamed(cut_array(body), whole, vertex)
        return Answer(extra=partial_body(body, whole, error))
    return _streamed(iter(value), whole, vertex) if isinstance(value, list) else _plain(value, vertex)


def _http_error(body: bytes) -> Any:
    """A call that would have streamed an array gets its error in one."""
    said = loosely(body)
    first = said[0] if isinstance(said, list) and said else None
    return (first.get("error") or first) if isinstance(first, dict) else said


def _plain(value: object, vertex: bool) -> Answer:
    root, envelope = unwrapped(value)
    if not root.keys() & _ROOT:
        raise Unparseable("the response has neither candidates nor what says why there are none")
    candidates = _listed(root.pop("candidates", []))
    indices = _indices(candidates)
    found = {index: spelled(candidate) for index, candidate in zip(indices, candidates, strict=True)}
    return _answer(_Root(root, envelope), found, terminated=True, ended=True, vertex=vertex)


def unwrapped(value: object) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """An answer's fields, and those of the envelope that Code Assist puts it into, if it does. Raises Unparseable."""
    if not isinstance(value, dict):
        raise Unparseable("the response, or an event of it, is no JSON object")
    fields = spelled(value)
    inner = fields.get("response")
    if not isinstance(inner, dict) or "candidates" in fields:
        return fields, None
    return spelled(inner), {name: kept for name, kept in fields.items() if name != "response"}


class _Root:
    """An answer's fields beside its candidates, from one object or from all pieces of a stream."""

    def __init__(self, fields: dict[str, Any] | None = None, envelope: dict[str, Any] | None = None) -> None:
        self.fields: dict[str, Any] = {}
        self.usage: dict[str, Any] | None = None
        self.envelope: dict[str, Any] | None = None
        self.error: Any = None
        self.add(fields or {}, envelope)

    def add(self, fields: dict[str, Any], envelope: dict[str, Any] | None) -> None:
        if envelope is not None:
            self.envelope = {**(self.envelope or {}), **envelope}
        for name, value in fields.items():
            if name == "usageMetadata" and isinstance(value, dict):
                self.usage = {**(self.usage or {}), **spelled(value)}  # counts so far: the last of each stands
            elif name == "error":
                self.error = value or self.error or "an error without a word"
            elif name != "candidates" and value != "":
                self.fields[name] = value

    def popped(self, name: str) -> str | None:
        return self.fields.pop(name) if isinstance(self.fields.get(name), str) else None


def _streamed(objects: Iterator[Any], whole: bool, vertex: bool) -> Answer:
    root = _Root()
    candidates: dict[int, CandidateDeltas] = {}
    known = False
    try:
        for value in objects:
            fields, envelope = unwrapped(value)
            known = known or bool(fields.keys() & _ROOT)
            pieces = _listed(fields.get("candidates", []))
            for index, piece in zip(_indices(pieces), pieces, strict=True):
                if index not in candidates:
                    candidates[index] = CandidateDeltas(vertex=vertex)
                candidates[index].add(piece)
            root.add(fields, envelope)
    except Unparseable:
        if whole:
            raise
    if whole and not known:
        raise Unparseable("the stream holds no answer")
    finished = bool(candidates) and all(candidate.finished for candidate in candidates.values())
    found = {index: candidates[index].whole() for index in sorted(candidates)}
    return _answer(root, found, terminated=finished, ended=whole, vertex=vertex)


def _answer(
    root: _Root, candidates: dict[int, dict[str, Any]], *, terminated: bool, ended: bool, vertex: bool
) -> Answer:
    """`terminated`: every candidate said why it ended; `ended`: nothing more was to come all the same."""
    choices = [_choice(index, candidate, vertex) for index, candidate in candidates.items()]
    blocked = block_reason(_feedback(root.fields).get("blockReason")) and not (choices and terminated)
    lack = lack_of(root.fields) if blocked or (ended and not choices) else None
    envelope = {} if root.envelope is None else {"envelope": root.envelope}
    return Answer(
        choices=choices,
        model=root.popped("modelVersion"),
        response_id=root.popped("responseId"),
        usage=root.usage,
        terminated=terminated,
        error=root.error or lack,
        extra={**root.fields, **envelope},
    )


def lack_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Why an answer has no candidate, as far as it says so itself: an error's form for what is none of HTTP's."""
    feedback = _feedback(fields)
    reason, message = block_reason(feedback.get("blockReason")), feedback.get("blockReasonMessage")
    said = message if isinstance(message, str) and message else None
    if reason is None:
        return {"message": f"the answer has no candidate{f': {said}' if said else ''}"}
    return {"blockReason": reason, "message": said or f"the prompt was blocked: {reason}"}


def _feedback(fields: Mapping[str, Any]) -> dict[str, Any]:
    feedback = fields.get("promptFeedback")
    return spelled(feedback) if isinstance(feedback, dict) else {}


def _choice(index: int, candidate: dict[str, Any], vertex: bool) -> Choice:
    said = candidate.get("finishReason")
    reason = finish_reason(said, vertex=vertex)
    modelled = ("index", "content", "finishReason") if said == reason else ("index", "content")
    return Choice(
        message=canonical_content(candidate.get("content", {}), "assistant"),
        index=index,
        finish_reason=reason,
        cut=reason == "MAX_TOKENS",
        extra={name: value for name, value in candidate.items() if name not in modelled},
    )


def _listed(candidates: object) -> list[dict[str, Any]]:
    if not isinstance(candidates, list) or not all(isinstance(candidate, dict) for candidate in candidates):
        raise Unparseable("an answer's candidates are no list of objects")
    return candidates


def _indices(candidates: list[dict[str, Any]]) -> list[int]:
    """The candidates' indices: the protocol leaves a 0 out. Where that makes two the same, places stand in for them."""
    said = [number(candidate.get("index")) for candidate in candidates]
    indices = [0 if index is None else index for index in said]
    if len(set(indices)) < len(indices):
        indices = [place if index is None else index for place, index in enumerate(said)]
    return indices if len(set(indices)) == len(indices) else list(range(len(candidates)))
