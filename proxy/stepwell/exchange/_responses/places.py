"""Where in an output item each kind of event of a Responses stream writes, and how its pieces become one value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stepwell.exchange._dialect import Unparseable

Path = tuple[str | int, ...]


class Place(NamedTuple):
    item: str
    """The type of item that these events belong to."""
    path: tuple[str, ...]
    """Names of fields, and the event's fields that number an entry."""
    done: str
    """The event's field with the whole text, at the end."""
    part: str = ""
    """The type of the content part that the text is in."""


_ANSWER = Place("message", ("content", "content_index", "text"), "text", "output_text")
_THOUGHT = Place("reasoning", ("content", "content_index", "text"), "text", "reasoning_text")
_SUMMARY = Place("reasoning", ("summary", "summary_index", "text"), "text", "summary_text")
_MCP = Place("mcp_call", ("arguments",), "arguments")
_CODE = Place("code_interpreter_call", ("code",), "code")

TEXTS: dict[str, Place] = {
    "output_text": _ANSWER,
    "refusal": Place("message", ("content", "content_index", "refusal"), "refusal", "refusal"),
    "reasoning_text": _THOUGHT,
    "reasoning": _THOUGHT,
    "reasoning_summary_text": _SUMMARY,
    "reasoning_summary": _SUMMARY,
    "function_call_arguments": Place("function_call", ("arguments",), "arguments"),
    "custom_tool_call_input": Place("custom_tool_call", ("input",), "input"),
    "mcp_call_arguments": _MCP,
    "mcp_call.arguments": _MCP,
    "code_interpreter_call_code": _CODE,
    "code_interpreter_call.code": _CODE,
    "shell_call_command": Place("shell_call", ("action", "commands", "command_index"), "command"),
    "apply_patch_call_operation_diff": Place("apply_patch_call", ("operation", "diff"), "diff"),
}
PARTS = {
    "content_part": ("content", "content_index"),
    "reasoning_summary_part": ("summary", "summary_index"),
}
LISTS = ("output_text.annotation.added", "output_text_annotation.added")
PROGRESS = frozenset(
    {"in_progress", "searching", "generating", "interpreting", "completed", "incomplete", "failed", "compacting"}
)
"""What an event of a tool's progress ends in: the item that follows says it all."""


class Texts:
    """What grows inside one item, by its place."""

    def __init__(self) -> None:
        self._pieces: dict[Path, list[str]] = {}
        self._wholes: dict[Path, str] = {}
        self._lists: dict[Path, list[Any]] = {}
        self._parts: dict[Path, dict[str, Any]] = {}

    def piece(self, path: Path, text: str, *, whole: bool) -> None:
        if whole:
            if text:
                self._wholes[path] = text
            self._pieces.setdefault(path, [])
        else:
            self._pieces.setdefault(path, []).append(text)

    def part(self, path: Path, said: object, *, done: bool = False) -> None:
        """A content part's own fields. Raises Unparseable when it is none."""
        if not isinstance(said, Mapping):
            raise Unparseable("an event's content part is no object")
        known = self._parts.setdefault(path, {})
        for key, value in said.items():
            if key in ("text", "refusal") and isinstance(value, str):
                self.piece((*path, key), value, whole=True)
            elif done or key not in known:
                known[key] = value

    def opened(self, path: Path, kind: str) -> None:
        """There is a content part of this type, whatever came of it so far."""
        self._parts.setdefault(path, {}).setdefault("type", kind)

    def entry(self, path: Path, value: object) -> None:
        if value is not None:
            self._lists.setdefault(path, []).append(value)

    def entries(self, path: Path, values: object, *, whole: bool) -> None:
        if isinstance(values, list) and values:
            if whole:
                self._lists[path] = list(values)
            else:
                self._lists.setdefault(path, []).extend(values)

    def tree(self) -> dict[str, Any]:
        """All of it in the shape of an item."""
        root = _Node()
        for path, fields in self._parts.items():
            _node(root, path).update(fields)
        for path, values in self._lists.items():
            _node(root, path[:-1])[path[-1]] = values
        for path, pieces in self._pieces.items():
            _node(root, path[:-1])[path[-1]] = self._wholes.get(path) or "".join(pieces)
        return {str(key): _shaped(value) for key, value in root.items()}


class _Node(dict[Any, Any]):
    """A level that is under construction: numbers for keys become a list."""


def _node(root: _Node, path: Path) -> _Node:
    node = root
    for step in path:
        below = node.get(step)
        if not isinstance(below, _Node):
            below = node[step] = _Node()
        node = below
    return node


def _shaped(value: Any) -> Any:
    if not isinstance(value, _Node):
        return value
    if value and all(isinstance(key, int) for key in value):
        return [_shaped(value[key]) for key in sorted(value)]
    return {key: _shaped(inner) for key, inner in value.items()}


def filled(said: Any, grown: Any, *, closed: bool) -> Any:
    """`said`, with what has grown from pieces where it says nothing; before it is closed, what has grown is newer."""
    if isinstance(said, Mapping) and isinstance(grown, Mapping):
        return {**said, **{key: filled(said.get(key), value, closed=closed) for key, value in grown.items()}}
    if isinstance(said, list) and said and isinstance(grown, list):
        both = [filled(one, other, closed=closed) for one, other in zip(said, grown, strict=False)]
        return [*both, *said[len(grown) :], *(() if closed else grown[len(said) :])]
    return said if said and (closed or not grown) else grown
