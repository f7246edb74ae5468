"""A chat message put together from the deltas of a stream.

Kept as plain dicts and lists, with what the vendor's own accumulator loses: tool deltas without an index, reasoning under any name,
content that comes as parts, the raw text of arguments that were cut. Texts are joined once, at the end: adding strings would be
quadratic.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import groupby
from typing import Any

from stepwell.exchange._chat.calls import Calls, FunctionDeltas
from stepwell.exchange._dialect import Unparseable

_TEXTS = ("refusal", "reasoning_content", "reasoning")
_AUDIO_TEXTS = ("data", "transcript")


class MessageDeltas:
    """`add` every delta, then take the `message`."""

    def __init__(self) -> None:
        self._content: list[Any] | None = None
        self._texts: dict[str, list[str]] = {}
        self._calls: Calls | None = None
        self._function: FunctionDeltas | None = None
        self._audio: dict[str, Any] = {}
        self._rest: dict[str, Any] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        """Add one delta. Raises Unparseable when it is not what the API promises."""
        for key, value in delta.items():
            if value is None:
                continue
            if key == "content":
                self._add_content(value)
            elif key in _TEXTS and isinstance(value, str):
                self._texts.setdefault(key, []).append(value)
            elif key == "tool_calls":
                self._add_calls(value)
            elif key == "function_call" and isinstance(value, Mapping):
                self._function = self._function or FunctionDeltas()
                self._function.add(value)
            elif key == "audio" and isinstance(value, Mapping):
                _add_audio(self._audio, value)
            elif isinstance(value, list) and isinstance(known := self._rest.get(key), list):
                known.extend(value)  # annotations, reasoning_details
            else:
                self._rest[key] = value

    def _add_content(self, value: object) -> None:
        if not isinstance(value, (str, list)):
            raise Unparseable("a delta's content is neither text nor a list of parts")
        self._content = [] if self._content is None else self._content
        self._content.extend([value] if isinstance(value, str) else value)

    def _add_calls(self, deltas: object) -> None:
        if not isinstance(deltas, list):
            raise Unparseable("a delta's tool_calls is no list")
        self._calls = self._calls or Calls()
        for delta in deltas:
            self._calls.add(delta)

    def message(self) -> dict[str, Any]:
        """The message so far, in the form of a plain answer's."""
        message = {**self._rest, **{key: "".join(pieces) for key, pieces in self._texts.items()}}
        if isinstance(details := message.get("reasoning_details"), list):
            message["reasoning_details"] = _joined_details(details)
        if self._content is not None:
            message["content"] = _joined_content(self._content)
        if self._calls is not None:
            message["tool_calls"] = self._calls.whole()
        if self._function is not None:
            message["function_call"] = self._function.whole()
        if self._audio:
            message["audio"] = {k: "".join(v) if k in _AUDIO_TEXTS else v for k, v in self._audio.items()}
        return message


def _add_audio(audio: dict[str, Any], piece: Mapping[str, Any]) -> None:
    for key, value in piece.items():
        if key not in _AUDIO_TEXTS:
            audio[key] = value
        elif isinstance(value, str):
            audio.setdefault(key, []).append(value)


def _joined_content(pieces: Sequence[Any]) -> str | list[Any]:
    """One text, where all pieces are text; else the parts, neighbouring texts and neighbouring thoughts in one piece each."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    parts: list[Any] = []
    for kind, group in groupby(pieces, key=_content_kind):
        run = list(group)
        if kind == "text":
            text = "".join(piece if isinstance(piece, str) else piece["text"] for piece in run)
            parts += [{"type": "text", "text": text}] if text else []
        elif kind == "thinking":
            parts.append({**run[-1], "thinking": [inner for piece in run for inner in piece["thinking"]]})
        else:
            parts += run
    return parts


def _content_kind(piece: object) -> str:
    if isinstance(piece, str):
        return "text"
    if isinstance(piece, Mapping):
        if piece.get("type") == "text" and isinstance(piece.get("text"), str) and piece.keys() == {"type", "text"}:
            return "text"
        if piece.get("type") == "thinking" and isinstance(piece.get("thinking"), list):
            return "thinking"
    return "other"


def _joined_details(details: Sequence[Any]) -> list[Any]:
    """OpenRouter's `reasoning_details`: the pieces of one text are one again, everything else stays as it came."""
    joined: list[Any] = []
    for kind, group in groupby(details, key=_detail_kind):
        run = list(group)
        if kind is None:
            joined += run
        else:
            said = {key: value for piece in run for key, value in piece.items() if value is not None}
            joined.append({**said, "text": "".join(piece["text"] for piece in run)})
    return joined


def _detail_kind(detail: object) -> Hashable:
    if not isinstance(detail, Mapping) or detail.get("type") != "reasoning.text":
        return None
    return ("text", str(detail.get("index"))) if isinstance(detail.get("text"), str) else None
