"""What a span says of a call of a model, whatever the convention; and the tools to read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from stepwell.gateway._body import parsed
from stepwell.gateway._problems import Problem

__all__ = ["Said", "first", "json_of", "listed", "tool_call", "tree", "without_none"]

Message = dict[str, Any]
"""In the form of OpenAI's chat messages."""


@dataclass(slots=True)
class Said:
    """A call. `answers` are its choices, each with its finish reason."""

    convention: str
    messages: list[Message] = field(default_factory=list)
    answers: list[tuple[Message, str | None]] = field(default_factory=list)
    tools: list[Any] | None = None
    sampling: dict[str, Any] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    model: Any = None
    model_asked: Any = None
    response_id: Any = None
    session: Any = None
    provider: Any = None


def first(attributes: Mapping[str, Any], *names: str) -> Any:
    """The first of these attributes that is there."""
    return next((value for name in names if (value := attributes.get(name)) is not None), None)


def json_of(value: Any) -> Any:
    """A value that is, or is written as, an object or a list; None for all else."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            value = parsed(value.encode("utf-8", "surrogatepass"))
        except Problem:
            return None
    return value if isinstance(value, dict | list) else None


def tree(attributes: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The attributes below `prefix`, whose names are dotted paths, as objects in objects."""
    root: dict[str, Any] = {}
    for name, value in attributes.items():
        if name.startswith(f"{prefix}."):
            *path, last = name[len(prefix) + 1 :].split(".")
            place = root
            for part in path:
                below = place.setdefault(part, {})
                if not isinstance(below, dict):
                    break
                place = below
            else:
                place.setdefault(last, value)
    return root


def listed(value: Any, inner: str | None = None) -> list[dict[str, Any]]:
    """The objects under the numbers 0, 1, … of a `tree`, in their order; `inner`: what stands under this name in each."""
    if not isinstance(value, dict):
        return []
    numbered = sorted(
        (int(name), item)
        for name, item in value.items()
        if name.isascii() and name.isdigit() and len(name) < 7 and isinstance(item, dict)
    )
    items = [item if inner is None else item.get(inner) for _, item in numbered]
    return [item for item in items if isinstance(item, dict)]


def tool_call(id_: Any, name: Any, arguments: Any) -> dict[str, Any]:
    """In OpenAI's form, where arguments are a text."""
    text = arguments if isinstance(arguments, str) else "" if arguments is None else orjson.dumps(arguments).decode()
    return {**({} if id_ is None else {"id": id_}), "type": "function", "function": {"name": name, "arguments": text}}


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """Only what was said."""
    return {name: value for name, value in values.items() if value is not None}
