"""Names of conversations: what a step's prompt and answer are found again by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import orjson

from stepwell.exchange.canonical import Message, chained_keys, compared

LEADING = ("system", "developer")
"""Who speaks in a system prompt."""


@dataclass(slots=True)  # one per step is made, and frozen it would take three times as long
class Keys:
    """Keys of a conversation, in hex. Prompt and answer together have the keys that a later prompt has for that many messages."""

    prompt: tuple[str, ...] = ()
    """For each message of the prompt, the key of the conversation up to it."""
    conversation: str | None = None
    """The key of prompt and answer; None when nothing was answered, for nobody can continue that."""
    rest: tuple[str, ...] = ()
    """The keys without the system messages that it begins with, of the same model; empty where it begins with none.

    Clients write a date or a counter into their system prompt: what follows tells, inside a trajectory, who goes on with whom.
    """
    rest_conversation: str | None = None
    leading: int = 0
    """How many system messages it begins with."""
    last_answer: int = -1
    """The place of the last answer that the prompt repeats; a prefilled one at its end is none."""
    instructed: bool = False
    """It begins with instructions that hold for this one call."""
    brought: bytes = b""
    """Tools that items of the prompt brought, which hold for what follows (JSON list; empty where there are none)."""

    @property
    def tail(self) -> Keys:
        """What it takes to go on from here."""
        return Keys(
            conversation=self.conversation,
            rest_conversation=self.rest_conversation,
            leading=self.leading,
            last_answer=self.last_answer,
            instructed=self.instructed,
            brought=self.brought,
        )


@dataclass(slots=True)  # one per step is made, and frozen it would take three times as long
class Begun:
    """The keys of a prompt, without its answer: a prompt that begins with the same messages goes on from them."""

    first: bytes
    """What the chain begins with, that of the rest too: a prompt goes on only from one of the same."""
    rest_first: bytes
    prompt: tuple[str, ...] = ()
    rest: tuple[str, ...] = ()
    leading: int = 0
    last_answer: int = -1
    prefilled: bool = False
    """Its last message is an answer, begun for the model or repeated."""
    instructed: bool = False
    brought: bytes = b""

    @property
    def opened(self) -> bool:
        """Whether more than its system prompt was said: what follows is then known not to belong to that."""
        return self.leading < len(self.prompt)


def begun(
    messages: Sequence[Message],
    model: str | None = None,
    missing: str | None = None,
    forms: Sequence[bytes] | None = None,
) -> Begun:
    """The keys of a prompt, in time linear in its size. `missing` names what should stand before it; `forms` as in `gone_on`."""
    leading = next((n for n, m in enumerate(messages) if m["role"] not in LEADING), len(messages))
    first = f"after {missing}, {model}".encode() if missing is not None else b""
    system = Begun(first, first + rest_seed(model), leading=leading)
    return replace(gone_on(system, messages, forms), instructed=is_instructions(messages[0]) if messages else False)


def goes_on_from(before: Begun, model: str | None) -> bool:
    """Whether a prompt of this model that nothing stands before may go on from one of the keys `before`."""
    return before.opened and not before.first and before.rest_first == rest_seed(model)


def gone_on(before: Begun, messages: Sequence[Message], forms: Sequence[bytes] | None = None) -> Begun:
    """The keys of a prompt that says `messages` after what one of the keys `before` says, in time linear in what is new.

    `forms`: what is compared of each, where it is at hand; the messages may be as `written` gives them then.
    """
    if not messages:
        return before
    count, leading = len(before.prompt), before.leading
    forms = [compared(message) for message in messages] if forms is None else forms
    whole = _chain(before.prompt[-1] if count else before.first, forms)
    rest: list[str] = []
    if 0 < leading < count + len(forms):
        rest = rest_keys(before.rest[-1] if before.rest else before.rest_first, forms if count else forms[leading:])
    last_answer = count - 1 if before.prefilled else before.last_answer
    for place, message in enumerate(messages[:-1], count):
        if message["role"] == "assistant":
            last_answer = place
    return Begun(
        before.first,
        before.rest_first,
        (*before.prompt, *whole),
        (*before.rest, *rest),
        leading,
        last_answer,
        messages[-1]["role"] == "assistant",
        before.instructed,
        _brought(before.brought, messages),
    )


def _chain(key: str | bytes, forms: Iterable[bytes]) -> list[str]:
    """The keys, in hex, of a conversation that goes on after the one of `key`."""
    last = bytes.fromhex(key) if isinstance(key, str) else key
    return [key.hex() for key in chained_keys(last, forms)]


def rest_keys(key: str | bytes, forms: Iterable[bytes]) -> list[str]:
    """The keys without its system prompt (16 hex digits each) of a conversation that goes on after the one of `key`.

    They are stored nowhere and tell the conversations of one trajectory apart, so the hash of this process does, in a tenth of the time.
    """
    keys = list[str]()
    for form in forms:
        key = f"{hash((key, form)) & 0xFFFF_FFFF_FFFF_FFFF:016x}"
        keys.append(key)
    return keys


def answered(begun: Begun, response: Message | None, form: bytes | None = None) -> Keys:
    """The keys of a prompt and its answer; `form`: what is compared of the answer, where it is at hand."""
    conversation = rest = None
    if begun.prompt and response is not None and response["content"]:
        forms = [compared(response) if form is None else form]
        (conversation,) = _chain(begun.prompt[-1], forms)
        if begun.rest:
            (rest,) = rest_keys(begun.rest[-1], forms)
    return Keys(
        begun.prompt,
        conversation,
        begun.rest,
        rest,
        begun.leading,
        begun.last_answer,
        begun.instructed,
        begun.brought,
    )


def keys_of(
    messages: Sequence[Message], response: Message | None, model: str | None = None, missing: str | None = None
) -> Keys:
    """The keys of a prompt and its answer, as `begun` and `answered` give them."""
    return answered(begun(messages, model, missing), response)


def extended(tail: Keys, messages: Sequence[Message], response: Message | None) -> Keys | None:
    """The keys of a prompt that goes on from a conversation of these keys, in time linear in what is new.

    None where that conversation had no answer. The keys of its own messages are not among those of the prompt.
    """
    if tail.conversation is None or not messages:
        return None
    forms = [compared(message) for message in messages]
    answer = [compared(response)] if response is not None and response["content"] else []
    whole = _chain(tail.conversation, [*forms, *answer])
    rest: list[str] = []
    if tail.rest_conversation is not None:
        rest = rest_keys(tail.rest_conversation, [*forms, *answer])
    return replace(
        tail,
        prompt=tuple(whole[: len(forms)]),
        conversation=whole[-1] if answer else None,
        rest_conversation=rest[-1] if answer and rest else None,
        brought=_brought(tail.brought, messages),
    )


def is_instructions(message: Message) -> bool:
    """Whether a message is the instructions that a request gives beside its input: they hold for that request alone."""
    return (message.get("extra") or {}).get("field") == "instructions"


def _brought(before: bytes, messages: Sequence[Message]) -> bytes:
    """Codex sends tools once, as an item of the conversation."""
    others = [
        part
        for message in messages
        if type(message["content"]) is not str
        for part in message["content"]
        if part["type"] == "other"
    ]
    if not others:
        return before
    extras = (part.get("extra") or {} for part in others)
    items = (extra.get("tools") for extra in extras if extra.get("type") == "additional_tools")
    new = [tool for tools in items if isinstance(tools, list) for tool in tools]
    return orjson.dumps([*orjson.loads(before or b"[]"), *new]) if new else before


def asked_key(keys: Keys, dialect: str | None, model: str | None, tools: bytes) -> str | None:
    """The key of a request: equal for two that ask the same model the same thing in the same dialect, with the same tools.

    None without messages.
    """
    if not keys.prompt:
        return None
    return hashlib.blake2b(f"{keys.prompt[-1]} {dialect} {model} ".encode() + tools, digest_size=16).hexdigest()


@lru_cache(maxsize=64)
def rest_seed(model: str | None) -> bytes:
    """What a chain of keys without the system prompt begins with."""
    return f"after the system prompt, {model}".encode()
