"""What a response repeats of its request: Responses servers send instructions, tools and settings back with every answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OTHER = object()
_BUILT = ("input",)
"""What a rebuilt request has in another form than it was sent in."""


def unechoed(answered: Mapping[str, Any], asked: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The fields of an answer that are its own, and for those that repeat the request's what they add to it.

    A server repeats a tool with its defaults filled in: only the defaults are kept. `True` stands for nothing added.
    """
    own: dict[str, Any] = {}
    echoed: dict[str, Any] = {}
    for key, value in answered.items():
        added = _added(asked[key], value) if key not in _BUILT and asked.get(key) not in (None, []) else _OTHER
        if added is _OTHER:
            own[key] = value
        else:
            echoed[key] = added
    return own, echoed


def _added(asked: Any, answered: Any) -> Any:
    try:
        return _difference(asked, answered)
    except RecursionError:
        return _OTHER


def _difference(asked: Any, answered: Any) -> Any:
    if isinstance(asked, Mapping) and isinstance(answered, Mapping):
        if any(value is not None and key not in answered for key, value in asked.items()):
            return _OTHER
        added = {
            key: _difference(asked[key], value) if key in asked else [value]
            for key, value in answered.items()
            if value is not None or asked.get(key) is not None
        }
        if any(value is _OTHER for value in added.values()):
            return _OTHER
        return {key: value for key, value in added.items() if value is not True} or True
    if isinstance(asked, list) and isinstance(answered, list) and len(asked) == len(answered):
        each = [_difference(one, other) for one, other in zip(asked, answered, strict=True)]
        if any(value is _OTHER for value in each):
            return _OTHER
        return True if all(value is True for value in each) else each
    return True if type(asked) is type(answered) and asked == answered else _OTHER


def echo(asked: Any, added: Any) -> Any:
    """What the answer said, from the request's value and what `unechoed` kept of it."""
    if added is True:
        return asked
    if isinstance(asked, Mapping):
        return {
            **asked,
            **{key: echo(asked[key], value) if key in asked else value[0] for key, value in added.items()},
        }
    return [echo(one, other) for one, other in zip(asked, added, strict=True)]
