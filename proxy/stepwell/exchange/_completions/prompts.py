"""Prompts that are no messages: texts or token ids, one or several to a call, each with its own choices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stepwell.exchange._canonical import Message, Part
from stepwell.exchange._chat.rebuild import extra_of
from stepwell.exchange._dialect import Unparseable
from stepwell.sdk.records import Step


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: a text, or token ids."""

    text: str = ""
    ids: list[int] | None = None

    def message(self, suffix: str = "") -> Message:
        """The prompt as a user's message; the text that is to come after the answer is said with it, and marked."""
        said: list[Part] = [{"type": "text", "text": self.text}] if self.text else []
        if self.ids is not None:
            said = [{"type": "text", "text": "", "extra": {"token_ids": self.ids}}]
        said += [{"type": "text", "text": suffix, "extra": {"field": "suffix"}}] if suffix else []
        return {"role": "user", "content": said}


def prompts_of(value: object) -> list[Prompt]:
    """A text, ids, or a list of either; none is the empty text. Raises Unparseable when it is anything else."""
    if isinstance(value, list) and value and type(value[0]) is not int:
        return [_prompt(one) for one in value]
    return [_prompt("" if value is None or value == [] else value)]


def _prompt(value: object) -> Prompt:
    if isinstance(value, str):
        return Prompt(value)
    if isinstance(value, list) and set(map(type, value)) <= {int}:
        return Prompt(ids=value)
    raise Unparseable("a prompt is neither a text nor a list of token ids")


def grouped(indices: Iterable[int], prompts: int, n: object) -> list[list[int]]:
    """The indices of each prompt's choices, `n` of them in a row. A prompt without any has one: its first.

    Raises:
        Unparseable: a choice answers none of the prompts.
    """
    each = n if type(n) is int and n > 0 else 1
    groups: list[list[int]] = [[] for _ in range(prompts)]
    for index in sorted(indices):
        place = index // each if prompts > 1 else 0
        if not 0 <= place < prompts:
            raise Unparseable(f"choice {index} answers none of {prompts} prompts with {each} choices each")
        groups[place].append(index)
    return [group or [place * each] for place, group in enumerate(groups)]


def prompt_of(step: Step) -> str | list[int]:
    """The prompt that a step answers, as it was sent."""
    parts = _parts(step)
    ids = next((ids for part in parts if (ids := extra_of(part).get("token_ids")) is not None), None)
    return "".join(part["text"] for part in parts if not _is_suffix(part)) if ids is None else ids


def suffix_of(step: Step) -> Mapping[str, Any]:
    """The text that was to come after the answer, under its name; nothing where there was none."""
    texts = [part["text"] for part in _parts(step) if _is_suffix(part)]
    return {"suffix": texts[0]} if texts else {}


def _parts(step: Step) -> list[Part]:
    return [part for message in step.messages or () for part in message["content"]]


def _is_suffix(part: Part) -> bool:
    return extra_of(part).get("field") == "suffix"
