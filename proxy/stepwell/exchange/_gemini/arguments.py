"""A function call's arguments that come in pieces, each with the JSON path where it belongs (Vertex: streamFunctionCallArguments)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from stepwell.exchange._dialect import Unparseable
from stepwell.exchange._gemini.words import spelled

_DEPTH = 100
"""Most steps of a path that is followed."""
_STEP = re.compile(
    r"""\.(?P<name>[^.\[\]]+) | \[(?P<index>[0-9]{1,9})\] | \[(?P<quote>['"])(?P<quoted>(?:[^\\]|\\.)*?)(?P=quote)\]""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)

Path = list[str | int]


class _Text:
    """A string in pieces: joined once, when it is written."""

    __slots__ = ("open", "pieces")

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.open = False


class PartialArguments:
    """`add` every piece, then take the `text`."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._last: Path = []
        self.odd: list[Any] = []
        """Pieces whose path leads nowhere, as they came."""

    def update(self, args: Mapping[str, Any]) -> None:
        """Arguments that came whole."""
        self._root.update(args)

    def add(self, piece: object) -> None:
        """One of `partialArgs`."""
        fields = dict(piece) if isinstance(piece, Mapping) else {}
        path = path_of(fields.get("jsonPath", fields.get("json_path")))
        if not path or not self._placed(path, fields):
            self.odd.append(piece)
            return
        self._last = path

    def _placed(self, path: Path, fields: dict[str, Any]) -> bool:
        holder: Any = self._root
        for place, step in enumerate(path[:-1]):
            holder = _child(holder, step, [] if isinstance(path[place + 1], int) else {})
        said = spelled(fields)
        if isinstance(text := said.get("stringValue"), str):
            leaf = _child(holder, path[-1], _Text())
            if not isinstance(leaf, _Text):
                return False
            leaf.pieces.append(text)
            leaf.open = bool(said.get("willContinue"))
            return True
        value = next((said[name] for name in ("numberValue", "boolValue") if name in said), None)
        if value is None and not fields.keys() & {"nullValue", "null_value"}:
            return False
        return _set(holder, path[-1], value)

    def text(self, whole: bool) -> str:
        """The arguments as JSON; of a call that was cut, as far as they had come: the brackets that never came are left out."""
        if not whole and not self._root:
            return ""
        try:
            text = orjson.dumps(self._root, default=_joined).decode()
        except orjson.JSONEncodeError as error:
            raise Unparseable(f"a function call's arguments cannot be written as JSON: {error}") from None
        return text if whole else text[: -self._unclosed()]

    def _unclosed(self) -> int:
        """How many characters at the end close what is still open: the root, and what the last piece stands in."""
        count = 1
        holder: Any = self._root
        for step in self._last:
            if step != _last_step(holder):
                break
            holder = _child(holder, step, None)
            if not isinstance(holder, (dict, list)):
                return count + (isinstance(holder, _Text) and holder.open)
            count += 1
        return count


def path_of(text: object) -> Path | None:
    """The steps of a JSON path such as `$.items[0]['a b']` (RFC 9535, single values only); None when it is none."""
    if not isinstance(text, str) or not text.startswith("$"):
        return None
    steps: Path = []
    at = 1
    while at < len(text):
        match = _STEP.match(text, at)
        if match is None or len(steps) == _DEPTH:
            return None
        index, quoted = match["index"], match["quoted"]
        steps.append(int(index) if index else match["name"] if quoted is None else _ESCAPED.sub(r"\1", quoted))
        at = match.end()
    return steps


def _last_step(holder: Any) -> str | int | None:
    return len(holder) - 1 if isinstance(holder, list) else next(reversed(holder), None)


def _child(holder: Any, step: str | int, empty: Any) -> Any:
    """What stands at `step`, put there when nothing does; None when the step does not fit (a list grows by one at a time)."""
    if isinstance(holder, dict) and isinstance(step, str):
        return holder.setdefault(step, empty)
    if isinstance(holder, list) and isinstance(step, int) and step <= len(holder):
        if step == len(holder):
            holder.append(empty)
        return holder[step]
    return None


def _set(holder: Any, step: str | int, value: Any) -> bool:
    """Put `value` at `step`, if that fits."""
    if isinstance(holder, dict) and isinstance(step, str):
        holder[step] = value
        return True
    if isinstance(holder, list) and isinstance(step, int) and step <= len(holder):
        holder[step : step + 1] = [value]
        return True
    return False


def _joined(text: _Text) -> str:
    return "".join(text.pieces)
