"""Names of conversations: what a step's prompt and answer are found again by."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson

from stepwell.exchange.canonical import Message, chained_keys, compared

_LEADING = ("system", "developer")


@dataclass(frozen=True, slots=True)
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
        return replace(self, prompt=(), rest=())


def keys_of(
    messages: Sequence[Message], response: Message | None, model: str | None = None, missing: str | None = None
) -> Keys:
    """The keys of a prompt and its answer, in time linear in their size. `missing` names what should stand before it."""
    forms = [compared(message) for message in messages]
    answer = [compared(response)] if messages and response is not None and response["content"] else []
    leading = next((n for n, m in enumerate(messages) if m["role"] not in _LEADING), len(messages))
    first = f"after {missing}, {model}".encode() if missing is not None else b""
    whole = [key.hex() for key in chained_keys(first, [*forms, *answer])]
    seed = first + _rest_seed(model)
    rest = [key.hex() for key in chained_keys(seed, [*forms, *answer][leading:])] if 0 < leading < len(forms) else []
    prompt = len(messages)
    return Keys(
        prompt=tuple(whole[:prompt]),
        conversation=whole[-1] if answer else None,
        rest=tuple(rest[: prompt - leading]),
        rest_conversation=rest[-1] if answer and rest else None,
        leading=leading,
        last_answer=max((n for n, m in enumerate(messages[:-1]) if m["role"] == "assistant"), default=-1),
        instructed=is_instructions(messages[0]) if messages else False,
        brought=_brought(b"", messages),
    )


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
    extras = (part.get("extra") or {} for message in messages for part in message["content"] if part["type"] == "other")
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


class Rest:
    """Keys without the system prompt, for many stored conversations: each message of theirs is looked at once."""

    def __init__(self) -> None:
        self._forms: dict[bytes, tuple[bytes, bool]] = {}

    def key(self, conversation: Sequence[bytes], model: str | None) -> str | None:
        """What `Keys.rest_conversation` is for these messages, the answer last."""
        known = [self._form(message) for message in conversation]
        leading = next((n for n, (_, leads) in enumerate(known) if not leads), len(known))
        forms = [form for form, _ in known[leading:]]
        return chained_keys(_rest_seed(model), forms)[-1].hex() if leading and len(forms) > 1 else None

    def _form(self, message: bytes) -> tuple[bytes, bool]:
        if (form := self._forms.get(message)) is None:
            said = orjson.loads(message)
            form = self._forms[message] = (compared(said), said["role"] in _LEADING)
        return form


def _rest_seed(model: str | None) -> bytes:
    return f"after the system prompt, {model}".encode()
