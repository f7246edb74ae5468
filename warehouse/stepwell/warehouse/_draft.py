"""A step on its way into the warehouse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import orjson
from numpy.typing import NDArray

from stepwell.exchange.canonical import Message, following_key, prefix_keys
from stepwell.sdk.records import Step

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Draft:
    """A checked step with what is computed from it once: token arrays and each message's JSON.

    `tokens`: int32 [prompt + response], None for a step that is text only. `messages`: one JSON text per prompt message.
    """

    step: Step
    producer: str
    sequence: int
    tokens: Ids | None
    prompt_length: int
    messages: tuple[bytes, ...]
    response: bytes
    tools: bytes
    """JSON, `null` where there are none."""
    prompt_keys: tuple[str, ...]
    """For each message, the key of the conversation up to it (32 hex digits)."""
    conversation_key: str | None
    """The key of prompt and response together; None when nothing was answered, for nobody can continue that."""

    @property
    def conversation(self) -> tuple[bytes, ...]:
        """The messages with the response after them, if there is one."""
        return (*self.messages, self.response) if self.response else self.messages


def draft(step: Step, messages: list[Message] | None, response: Message | None, producer: str, sequence: int) -> Draft:
    """A draft of `step`; `messages` and `response` are its conversation in canonical form."""
    tokens = None
    if step.prompt_ids is not None and step.response_ids is not None:
        tokens = np.concatenate([np.asarray(step.prompt_ids, np.int32), np.asarray(step.response_ids, np.int32)])
    keys = prefix_keys(messages or ())
    answered = bool(messages) and response is not None and bool(response["content"])
    return Draft(
        step=step,
        producer=producer,
        sequence=sequence,
        tokens=tokens,
        prompt_length=len(step.prompt_ids or ()),
        messages=tuple(orjson.dumps(message) for message in messages or ()),
        response=orjson.dumps(response) if response is not None else b"",
        tools=orjson.dumps(step.tools),
        prompt_keys=tuple(key.hex() for key in keys),
        conversation_key=following_key(keys, response).hex() if answered and response is not None else None,
    )
