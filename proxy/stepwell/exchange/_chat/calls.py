"""Tool calls of a chat message, put together from the deltas of a stream, whichever way their pieces name them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stepwell.exchange._chat.messages import argument_text
from stepwell.exchange._dialect import Unparseable


class Calls:
    """Tool calls. An index names its call; without one, an id does; without either, a name opens one and arguments continue the last.

    The last is the one that was last spoken of, which in a stream that mixes the forms need not be the last that was opened.
    """

    def __init__(self) -> None:
        self._calls: list[_Call] = []
        self._last: _Call | None = None
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}

    def add(self, delta: object) -> None:
        if not isinstance(delta, Mapping):
            raise Unparseable("a tool call's delta is no object")
        index, id_ = delta.get("index"), delta.get("id")
        index, id_ = index if type(index) is int else None, id_ if isinstance(id_, str) and id_ else None
        call = self._unnumbered(id_, delta) if index is None else self._numbered(index, id_, delta)
        if call is None:
            call = _Call()
            self._calls.append(call)
        if index is not None:
            self._by_index[index] = call
            call.index = index
        if id_ is not None:
            self._by_id[id_] = call
        self._last = call
        call.add(delta)

    def _unnumbered(self, id_: str | None, delta: Mapping[str, Any]) -> _Call | None:
        if id_ is not None:
            return self._by_id.get(id_)
        last = self._last
        return None if last is None or (_name(delta) and last.has_arguments) else last

    def _numbered(self, index: int, id_: str | None, delta: Mapping[str, Any]) -> _Call | None:
        call = self._by_index.get(index)
        if call is not None and not call.is_other(delta):
            return call
        # Some servers give every call of an answer index 0: another id, or another function, is another call. And some open a
        # call without a number that they name later; the same id under two numbers is two calls.
        known = self._by_id.get(id_) if id_ is not None else None
        if id_ is None and call is None and not _name(delta) and 0 <= index < len(self._calls):
            known = self._calls[index]
        return known if known is not None and known.index in (None, index) else None

    def whole(self) -> list[dict[str, Any]]:
        return [call.whole() for call in self._calls]


class _Call:
    def __init__(self) -> None:
        self.index: int | None = None
        self._fields: dict[str, Any] = {}
        self._functions: dict[str, FunctionDeltas] = {}

    def is_other(self, delta: Mapping[str, Any]) -> bool:
        """Whether a delta of the same index says that it belongs to another call."""
        known, id_ = self._fields.get("id"), delta.get("id")
        if known and id_:
            return bool(known != id_)
        name = next((function.name for function in self._functions.values()), None)
        return bool(name and _name(delta) and _name(delta) != name and self.has_arguments)

    @property
    def has_arguments(self) -> bool:
        return any(function.has_arguments for function in self._functions.values())

    def add(self, delta: Mapping[str, Any]) -> None:
        for key, value in delta.items():
            if key in ("function", "custom") and value is not None:
                if not isinstance(value, Mapping):
                    raise Unparseable("a tool call's function is no object")
                self._functions.setdefault(key, FunctionDeltas()).add(value)
            elif (
                value not in (None, "") and key != "index"
            ):  # an id that is repeated empty does not take the first away
                self._fields[key] = value

    def whole(self) -> dict[str, Any]:
        return {**self._fields, **{key: function.whole() for key, function in self._functions.items()}}


class FunctionDeltas:
    """A function's (or custom tool's) name, and its arguments (or input) in pieces."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._pieces: dict[str, list[str]] = {}

    @property
    def name(self) -> Any:
        return self._fields.get("name")

    @property
    def has_arguments(self) -> bool:
        return any(any(pieces) for pieces in self._pieces.values())

    def add(self, piece: Mapping[str, Any]) -> None:
        for key, value in piece.items():
            if key in ("arguments", "input"):
                try:
                    self._pieces.setdefault(key, []).append(argument_text(value))
                except ValueError as error:
                    raise Unparseable(str(error)) from None
            elif value:
                self._fields[key] = value

    def whole(self) -> dict[str, Any]:
        return {**self._fields, **{key: "".join(pieces) for key, pieces in self._pieces.items()}}


def _name(delta: Mapping[str, Any]) -> Any:
    function = delta.get("function") or delta.get("custom")
    return function.get("name") if isinstance(function, Mapping) else None
