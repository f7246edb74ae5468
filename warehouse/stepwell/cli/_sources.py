"""Where a setting came from, and what to say when it is wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from stepwell.errors import SettingsError

PREFIX = "STEPWELL_"
_NOT_SETTINGS = frozenset({"CONFIG", "HOME", "TOKEN", "TRAJECTORY", "URL"})
"""Variables of the same prefix that other parts read: where things are, for the SDK, for the agent of `stepwell run`."""
_OF_TESTS = PREFIX + "TEST_"
"""What the project's own tests are told by: the browser, where pictures go."""

Location = tuple[int | str, ...]


@dataclass(frozen=True)
class Sources:
    """The layers, highest first, as they were read."""

    flags: Mapping[str, Any]
    variables: Mapping[str, str]
    file: Mapping[str, Any]
    path: Path

    def describe(self, where: Location) -> str:
        """`port in stepwell.toml`, `STEPWELL_PROXY__PORT`, … : the highest layer that has this setting."""
        key = dotted(where)
        if _holds(self.flags, where):
            return f"{key} (given on the command line)"
        for length in range(len(where), 0, -1):
            variable = _variable(where[:length])
            if variable in self.variables:
                inside = f" ({key})" if length < len(where) else ""
                return f"the variable {variable}{inside}"
        return f"{key!r} in {self.path}" if _holds(self.file, where) else repr(key)


def is_setting(model: type[BaseModel], variable: str) -> bool:
    """Whether this environment variable sets a field of `model`, or something inside one."""
    name = variable.upper()
    return name.startswith(PREFIX) and name.removeprefix(PREFIX).split("__")[0].lower() in model.model_fields


def refuse_unknown_variables(model: type[BaseModel], variables: Mapping[str, str]) -> None:
    """A `STEPWELL_*` variable that names no section of `model` is an error (what is inside a section, the models check)."""
    for name in sorted(variables):
        upper = name.upper()
        ours = upper.startswith(PREFIX) and upper.removeprefix(PREFIX) not in _NOT_SETTINGS
        if ours and not upper.startswith(_OF_TESTS) and not is_setting(model, name):
            known = [_variable(path) for path in _paths(model)] + [PREFIX + other for other in sorted(_NOT_SETTINGS)]
            raise SettingsError(f"unknown setting in the environment: {name}{_nearest(upper, known)}")


def explain(model: type[BaseModel], error: ValidationError, sources: Sources) -> str:
    """One line for the first thing that is wrong."""
    errors = error.errors(include_url=False, include_input=False)
    first, more = errors[0], len(errors) - 1
    where: Location = first["loc"]
    described = sources.describe(where)
    if first["type"] == "extra_forbidden":
        message = (
            f"unknown setting: {described}{_suggest(model, where, by_variable=described.startswith('the variable'))}"
        )
    else:
        hint = "; write it as JSON" if first["type"] in ("list_type", "dict_type") and "variable" in described else ""
        message = f"{described}: {first['msg'].removeprefix('Value error, ')}{hint}"
    return f"{message} (and {more} more)" if more else message


def dotted(where: Location) -> str:
    """`proxy.routes[0].host`."""
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _suggest(model: type[BaseModel], where: Location, *, by_variable: bool) -> str:
    names = [path for path in _paths(model) if len(path) <= len(where)]
    plain = tuple(part for part in where if isinstance(part, str))
    if by_variable:
        return _nearest(_variable(plain), [_variable(path) for path in names])
    return _nearest(dotted(plain), [dotted(path) for path in names])


def _nearest(name: str, known: list[str]) -> str:
    matches = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return f"; did you mean {matches[0]}?" if matches else f"; known: {', '.join(known)}" if len(known) < 12 else ""


def _paths(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every key, and every key of the models inside."""
    for name, field in model.model_fields.items():
        yield (*above, name)
        for inner in _models(field.annotation):
            yield from _paths(inner, (*above, name))


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _variable(where: Location) -> str:
    return PREFIX + "__".join(str(part) for part in where).upper()


def _holds(layer: Any, where: Location) -> bool:
    for part in where:
        try:
            layer = layer[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True
