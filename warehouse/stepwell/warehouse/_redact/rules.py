"""`[redact]`: the user's rules for what must not be stored, and how they work on one text.

    [[redact.rules]]
    name = "api keys"
    pattern = 'sk-[A-Za-z0-9]{20,}'
    replace = "[key]"
    [redact]
    callables = ["our_package.privacy:without_names"]     # text -> text

Patterns are Python's (`re`), and `replace` is put in as it stands. What a rule says of a whole record, `records` does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from stepwell.errors import SettingsError

_PASSES = 10
"""How often the patterns are tried on one text: a replacement can make a new match with what stands beside it."""

_HALF = re.compile("[\ud800-\udfff]")
"""Half a surrogate pair, which JSON can escape and no UTF-8 text can hold."""

Names = dict[str, None]
"""An ordered set: the rules that found something."""


def _compilable(value: str) -> str:
    try:
        compiled = re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"is no regular expression: {error}") from None
    if compiled.search(""):
        raise ValueError("matches the empty text, so it would match everywhere")
    return value


def _function_name(value: str) -> str:
    module, colon, function = value.partition(":")
    if not (colon and all(part.isidentifier() for part in (*module.split("."), *function.split(".")))):
        raise ValueError(f"{value!r} is not of the form package.module:function")
    return value


class RedactRule(BaseModel):
    """One pattern, and what is put in the place of what it matches."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    pattern: Annotated[str, StringConstraints(min_length=1), AfterValidator(_compilable)]
    replace: str = "[redacted]"
    name: Annotated[str, StringConstraints(min_length=1, max_length=100)] | None = None
    """What a step's reason calls it; its number where it has none. Never the pattern, which may be a secret itself."""


class RedactConfig(BaseModel):
    """Section `[redact]`."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    rules: tuple[RedactRule, ...] = ()
    callables: tuple[Annotated[str, AfterValidator(_function_name)], ...] = Field(default=())
    """`package.module:function`, importable where ingest runs; each takes a text and returns one. They work before the patterns."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        for number, rule in enumerate(self.rules, 1):
            for other in self.rules:
                if re.search(rule.pattern, other.replace):
                    whose = "its own replacement" if other is rule else f"the replacement {other.replace!r}"
                    raise ValueError(f"{_name(rule, number)} matches {whose}: give another `replace`")
        return self


def _name(rule: RedactRule, number: int) -> str:
    return rule.name or f"rule {number}"


class RedactionFailed(Exception):
    """A rule did not work on a text, which therefore must not be stored. Says nothing of the text."""


class Redactor:
    """The rules, compiled and imported once. False when there are none."""

    def __init__(self, config: RedactConfig | None = None) -> None:
        """Raises `SettingsError` when a callable cannot be imported."""
        config = config or RedactConfig()
        self._patterns = [
            (_name(rule, n), re.compile(rule.pattern), rule.replace) for n, rule in enumerate(config.rules, 1)
        ]
        self._callables = [(name, _imported(name)) for name in config.callables]

    def __bool__(self) -> bool:
        return bool(self._patterns or self._callables)

    def text(self, text: str, found: Names) -> str:
        """`text` after all rules; those that changed it are added to `found`.

        A JSON text is looked at in its strings too, where escapes would hide what is said.

        Raises:
            RedactionFailed: a rule raised, or did not give a text.
        """
        text = self._plain(text, found)
        if "\\" in text and text.lstrip()[:1] in ("{", "[", '"'):
            try:
                said = json.loads(text)
            except ValueError:
                return text
            inside: Names = {}
            new = self.values(said, inside)
            if inside:
                found |= inside
                made = json.dumps(new, ensure_ascii=False, separators=(",", ":"))
                if not _HALF.search(text):  # with one, it is bytes that are no UTF-8, which shall come back the same
                    made = _HALF.sub(lambda half: f"\\u{ord(half[0]):04x}", made)
                text = self._plain(made, found)
        return text

    def values(self, value: object, found: Names) -> object:
        """A JSON value with every string in it redacted, the names of its fields too."""
        if isinstance(value, str):
            return self.text(value, found)
        if isinstance(value, list):
            return [self.values(inner, found) for inner in value]
        if isinstance(value, dict):
            new: dict[str, object] = {}
            for key, inner in value.items():
                new[_free(self.text(key, found), new)] = self.values(inner, found)
            return new
        return value

    def _plain(self, text: str, found: Names) -> str:
        for name, function in self._callables:
            text = _called(name, function, text, found)
        for _ in range(_PASSES):
            before = text
            for name, pattern, replace in self._patterns:
                new = pattern.sub(lambda _, by=replace: by, text)  # type: ignore[misc]
                if new != text:
                    found[name] = None
                    text = new
            if text == before:
                return text
        raise RedactionFailed("the redaction rules do not come to an end: replacements make new matches")


def _called(name: str, function: Callable[[str], object], text: str, found: Names) -> str:
    try:
        new = function(text)
    except Exception as error:  # noqa: BLE001 — the user's code; its words may repeat the text
        raise RedactionFailed(f"the redaction rule {name} failed: {type(error).__name__}") from None
    if not isinstance(new, str):
        raise RedactionFailed(f"the redaction rule {name} gave no text but {type(new).__name__}")
    if set(_HALF.findall(new)) - set(_HALF.findall(text)):
        raise RedactionFailed(f"the redaction rule {name} gave half a surrogate pair, which cannot be stored")
    if new != text:
        found[name] = None
    return new


def _free(key: str, taken: dict[str, object]) -> str:
    """Two fields whose names became the same stay two."""
    name, number = key, 2
    while name in taken:
        name, number = f"{key} ({number})", number + 1
    return name


def _imported(name: str) -> Callable[[str], object]:
    module, _, path = name.partition(":")
    try:
        function: object = import_module(module)
        for part in path.split("."):
            function = getattr(function, part)
    except Exception as error:  # importing runs the user's code
        raise SettingsError(
            f"redact.callables: {name} cannot be imported: {error}; install it, or name its folder in PYTHONPATH"
        ) from error
    if not callable(function):
        raise SettingsError(f"redact.callables: {name} is no function")
    return function
