"""A step's whole prompt, where its call sent only what was new: what the provider remembered, then the call's own messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson

from stepwell.exchange.canonical import Message
from stepwell.warehouse._link.continues import Before
from stepwell.warehouse._parse.draft import Draft
from stepwell.warehouse._parse.keys import extended, is_instructions, keys_of
from stepwell.warehouse._tables.json_text import kept


def parents_first(drafts: Sequence[Draft]) -> list[Draft]:
    """The drafts in their order, but for those that continue an answer further on: a round takes one producer after the other."""
    if not any(draft.step.continues for draft in drafts):
        return list(drafts)
    ahead = {f"response:{draft.step.response_id}" for draft in drafts if draft.step.response_id is not None}
    held: dict[str, list[Draft]] = {}
    ordered: list[Draft] = []
    for draft in drafts:
        if draft.step.continues in ahead:
            held.setdefault(draft.step.continues or "", []).append(draft)
            continue
        free = [draft]
        while free:
            ordered.append(one := free.pop())
            if (name := f"response:{one.step.response_id}") in ahead:
                ahead.discard(name)
                free.extend(reversed(held.pop(name, [])))
    return ordered + [draft for waiting in held.values() for draft in waiting]  # a circle: nobody is first


def continued(draft: Draft, before: Before) -> Draft:
    """`draft` with what was said before its own messages."""
    own = [orjson.loads(message) for message in draft.messages]
    answer = orjson.loads(draft.response) if draft.response else None
    tail = before.tail if not _instructions(own) else None
    keys = extended(tail, own, answer) if tail is not None and not tail.instructed else None
    if keys is not None and tail is not None:  # nothing of what was said before changes, so it is not read again
        messages = (*before.messages, *draft.messages)
        return replace(draft, messages=messages, tools=_tools(draft.tools, before.tools, tail.brought), keys=keys)
    said = [orjson.loads(message) for message in before.messages]
    whole = [*_instructions(own), *said[len(_instructions(said)) :], *own[len(_instructions(own)) :]]
    brought = keys_of(said, None).brought
    return replace(
        draft,
        messages=tuple(_same_bytes(whole, (*before.messages, *draft.messages), (*said, *own))),
        tools=_tools(draft.tools, before.tools, brought),
        keys=keys_of(whole, answer, draft.step.model_asked, before.missing),
    )


def _same_bytes(whole: Iterable[Message], texts: tuple[bytes, ...], messages: tuple[Any, ...]) -> Iterator[bytes]:
    """The texts of the messages: the same objects, so that a long conversation is held once."""
    text_of = {id(message): text for message, text in zip(messages, texts, strict=True)}
    return (text_of[id(message)] for message in whole)


def _instructions(messages: list[Message]) -> list[Message]:
    return messages[:1] if messages and is_instructions(messages[0]) else []


def _tools(own: bytes, warmed: bytes, brought: bytes) -> bytes:
    """A call's own tools, else those of its warm-up; and those that an item of the conversation brought."""
    asked = own if own != b"null" else warmed
    return kept([*(orjson.loads(asked) or []), *orjson.loads(brought)]) if brought else asked
