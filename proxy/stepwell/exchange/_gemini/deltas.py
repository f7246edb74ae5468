"""A candidate put together from the pieces of a stream, in the form that a plain answer has.

Neighbouring texts become one part, neighbouring thoughts likewise, and so does a function call whose arguments come in pieces. Texts
are joined once, at the end.
"""

from __future__ import annotations

from typing import Any

import orjson

from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._gemini.arguments import PartialArguments
from stepwell.exchange._gemini.words import finish_reason, spelled

_RUN_FIELDS = frozenset({"text", "thought", "thoughtSignature"})
_UPDATED = ("groundingMetadata", "urlContextMetadata")
"""Objects whose fields come with some piece, and empty with others."""
_EXTENDED = ("logprobsResult", "citationMetadata")
"""Objects with lists, of which each piece brings its own part."""


class CandidateDeltas:
    """`add` every piece, then take the `whole` candidate."""

    def __init__(self, *, vertex: bool) -> None:
        self._vertex = vertex
        self._fields: dict[str, Any] = {}
        self._content: dict[str, Any] = {}
        self._parts = _Parts()
        self._lists = {name: _Lists(distinct=name == "citationMetadata") for name in _EXTENDED}

    @property
    def finished(self) -> bool:
        return finish_reason(self._fields.get("finishReason"), vertex=self._vertex) is not None

    def add(self, piece: dict[str, Any]) -> None:
        """Add one piece. Raises Unparseable when it is not what the API promises."""
        for name, value in spelled(piece).items():
            if name == "content":
                self._add_content(value)
            elif name in _UPDATED and isinstance(value, dict):
                self._fields.setdefault(name, {}).update({key: said for key, said in value.items() if said})
            elif name in _EXTENDED and isinstance(value, dict):
                self._lists[name].add(value)
            elif name != "finishReason" or finish_reason(value, vertex=self._vertex):
                self._fields[name] = value

    def _add_content(self, content: object) -> None:
        if not isinstance(content, dict):
            raise Unparseable("a candidate's content is no object")
        fields = spelled(content)
        parts = fields.pop("parts", [])
        self._content.update(fields)
        for part in parts if isinstance(parts, list) else [parts]:
            if not isinstance(part, dict):
                raise Unparseable("a part of a candidate's content is no object")
            self._parts.add(spelled(part))

    def whole(self) -> dict[str, Any]:
        """The candidate so far; the arguments of a call that was cut are the text that had come."""
        content = {**self._content, "parts": self._parts.whole(self.finished)}
        lists = {name: lists.whole() for name, lists in self._lists.items()}
        return {**self._fields, **{name: said for name, said in lists.items() if said}, "content": content}


class _Parts:
    """Parts in their order; the last one may still grow."""

    def __init__(self) -> None:
        self._parts: list[_Run | _Call | dict[str, Any]] = []
        self._call: _Call | None = None

    def add(self, part: dict[str, Any]) -> None:
        call = part.get("functionCall")
        if isinstance(call, dict):
            self._add_call(spelled(call), part)
        elif isinstance(part.get("text"), str) and part.keys() <= _RUN_FIELDS:
            if part["text"] or "thoughtSignature" in part:
                self._add_text(part)
        elif part:
            self._parts.append(part)

    def _add_text(self, part: dict[str, Any]) -> None:
        last = self._parts[-1] if self._parts else None
        thought = bool(part.get("thought"))
        if not isinstance(last, _Run) or last.thought != thought or last.signature is not None:
            last = _Run(thought)
            self._parts.append(last)
        last.texts.append(part["text"])
        last.signature = part.get("thoughtSignature")

    def _add_call(self, call: dict[str, Any], part: dict[str, Any]) -> None:
        rest = {name: value for name, value in part.items() if name != "functionCall"}
        if self._call is None or self._call.is_other(call):
            if not call and not rest:
                return  # the end of a call that has ended already
            self._call = _Call()
            self._parts.append(self._call)
        self._call.add(call, rest)
        self._call = self._call if call.get("willContinue") else None

    def whole(self, finished: bool) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for part in self._parts:
            if isinstance(part, _Call):
                parts.append(part.whole(finished or part is not self._call))
            elif not isinstance(part, _Run):
                parts.append(part)
            else:
                parts.append(part.whole())
        return parts


class _Run:
    """Pieces of one text, or of one thought; a signature ends it."""

    def __init__(self, thought: bool) -> None:
        self.thought = thought
        self.texts: list[str] = []
        self.signature: object = None

    def whole(self) -> dict[str, Any]:
        signed = {} if self.signature is None else {"thoughtSignature": self.signature}
        return {"text": "".join(self.texts), **({"thought": True} if self.thought else {}), **signed}


class _Call:
    """A function call: its name with the first piece, `willContinue` with all but the last, often an empty, one."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._args: Any = None
        self._partial: PartialArguments | None = None
        self._rest: dict[str, Any] = {}

    def is_other(self, call: dict[str, Any]) -> bool:
        """Whether a piece opens another call although this one never ended: it has a name, and not this one's id."""
        known, id_ = self._fields.get("id"), call.get("id")
        if known and id_:
            return bool(known != id_)
        return bool(call.get("name"))

    def add(self, call: dict[str, Any], rest: dict[str, Any]) -> None:
        self._rest.update(rest)
        pieces = call.pop("partialArgs", None)
        args = call.pop("args", None)
        self._fields.update({name: value for name, value in call.items() if name != "willContinue"})
        if pieces is None and (self._partial is None or not isinstance(args, dict)):
            self._args = self._args if args is None else args
            return
        if self._partial is None:
            self._partial = PartialArguments()
            args = {**(self._args if isinstance(self._args, dict) else {}), **(args if isinstance(args, dict) else {})}
        self._partial.update(args if isinstance(args, dict) else {})
        for piece in pieces if isinstance(pieces, list) else [] if pieces is None else [pieces]:
            self._partial.add(piece)

    def whole(self, ended: bool) -> dict[str, Any]:
        call = dict(self._fields)
        if self._partial is not None:
            text = self._partial.text(ended)
            call["args"] = orjson.loads(text) if ended else text
            if self._partial.odd:
                call["partialArgs"] = self._partial.odd
        elif self._args is not None or not ended:
            call["args"] = "" if self._args is None else self._args
        return {"functionCall": call, **self._rest}


class _Lists:
    """An object's lists from all pieces, end to end; its other fields as they came last."""

    def __init__(self, *, distinct: bool) -> None:
        self._distinct = distinct
        self._fields: dict[str, Any] = {}
        self._seen: set[bytes] = set()

    def add(self, piece: dict[str, Any]) -> None:
        for name, value in spelled(piece).items():
            if isinstance(value, list) and isinstance(known := self._fields.setdefault(name, []), list):
                known.extend(entry for entry in value if self._is_new(name, entry))
            else:
                self._fields[name] = value

    def _is_new(self, name: str, entry: object) -> bool:
        """Citations are told again with later pieces, by some servers; logprobs of equal tokens are two."""
        if not self._distinct:
            return True
        try:
            mark = orjson.dumps([name, entry], option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError as error:
            raise Unparseable(f"a citation cannot be written as JSON: {error}") from None
        if mark in self._seen:
            return False
        self._seen.add(mark)
        return True

    def whole(self) -> dict[str, Any]:
        return self._fields
