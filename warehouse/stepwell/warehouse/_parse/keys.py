"""Names of conversations: what a step's prompt and answer are found again by."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

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


def begun(messages: Sequence[Message], model: str | None = None, missing: str | None = None) -> Begun:
    """The keys of a prompt, in time linear in its size. `missing` names what should stand before it."""
    leading = next((n for n, m in enumerate(messages) if m["role"] not in LEADING), len(messages))
    first = f"after {missing}, {model}".encode() if missing is not None else b""
    system = Begun(first, first + rest_seed(model), leading=leading)
    return replace(gone_on(system, messages), instructed=is_instructions(messages[0]) if messages else False)


def goes_on_from(before: Begun, model: str | None) -> bool:
    """Whether a prompt of this model that nothing stands before may go on from one of the keys `before`."""
    return before.opened and not before.first and before.rest_first == rest_seed(model)


def gone_on(before: Begun, messages: Sequence[Message]) -> Begun:
    """The keys of a prompt that says `messages` after what one of the keys `before` says, in time linear in what is new."""
    if not messages:
        return before
    count, forms = len(before.prompt), [compared(message) for message in messages]
    whole = chained_keys(bytes.fromhex(before.prompt[-1]) if count else before.first, forms)
    skipped = 0 if count else before.leading
    rest: list[bytes] = []
    if 0 < before.leading < count + len(forms):
        rest = chained_keys(bytes.fromhex(before.rest[-1]) if before.rest else before.rest_first, forms[skipped:])
    answers = [count + n for n, message in enumerate(messages[:-1]) if message["role"] == "assistant"]
    return Begun(
        before.first,
        before.rest_first,
        prompt=(*before.prompt, *[key.hex() for key in whole]),
        rest=(*before.rest, *[key.hex() for key in rest]),
        leading=before.leading,
        last_answer=answers[-1] if answers else count - 1 if before.prefilled else before.last_answer,
        prefilled=messages[-1]["role"] == "assistant",
        instructed=before.instructed,
        brought=_brought(before.brought, messages),
    )


def answered(begun: Begun, response: Message | None) -> Keys:
    """The keys of a prompt and its answer."""
    conversation = rest = None
    if begun.prompt and response is not None and response["content"]:
        form = [compared(response)]
        conversation = chained_keys(bytes.fromhex(begun.prompt[-1]), form)[0].hex()
        rest = chained_keys(bytes.fromhex(begun.rest[-1]), form)[0].hex() if begun.rest else None
    return Keys(
        prompt=begun.prompt,
        conversation=conversation,
        rest=begun.rest,
        rest_conversation=rest,
        leading=begun.leading,
        last_answer=begun.last_answer,
        instructed=begun.instructed,
        brought=begun.brought,
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
    whole = [key.hex() for key in chained_keys(bytes.fromhex(tail.conversation), [*forms, *answer])]
    rest: list[str] = []
    if tail.rest_conversation is not None:
        rest = [key.hex() for key in chained_keys(bytes.fromhex(tail.rest_conversation), [*forms, *answer])]
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
    others = [part for message in messages for part in message["content"] if part["type"] == "other"]
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


def rest_seed(model: str | None) -> bytes:
    """What a chain of keys without the system prompt begins with."""
    return f"after the system prompt, {model}".encode()
