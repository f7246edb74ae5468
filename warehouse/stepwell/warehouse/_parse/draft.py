"""A step on its way into the warehouse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepwell.errors import InvalidRecord
from stepwell.exchange.canonical import Message
from stepwell.sdk.records import CheckedIds, Step
from stepwell.warehouse._parse.histories import Histories
from stepwell.warehouse._parse.keys import Keys, answered, asked_key
from stepwell.warehouse._tables.json_text import kept

Ids = NDArray[np.int32]
Logprobs = NDArray[np.float32]

_KEPT_HERE: dict[str, None] = dict.fromkeys(("prompt_ids", "response_ids", "logprobs", "messages", "response", "tools"))


@dataclass(slots=True)  # one per step is made, and frozen it would take three times as long
class Draft:
    """A checked step with what is computed from it once: token arrays and each message's JSON.

    `tokens`: int32 [prompt + response], None for a step that is text only. `logprobs`: float32 [response] or None. `messages`: one
    JSON text per prompt message. `step` is without what the other fields hold: lists of Python numbers take ten times the room.
    """

    step: Step
    producer: str
    sequence: int
    submitted: bool
    """Its id was chosen by whoever submitted it, so it may come again; an id derived from an exchange cannot."""
    tokens: Ids | None
    prompt_length: int
    logprobs: Logprobs | None
    messages: tuple[bytes, ...]
    response: bytes
    tools: bytes
    """JSON, `null` where there are none."""
    keys: Keys
    """Names of its conversation (32 hex digits each)."""
    retry: int = 0
    """Which retry the client's library says this is; 0 is a first attempt, or no word."""
    asked: int = 0
    """The number of the record of the request; 0 for what was submitted."""
    again: bool = False
    """It is of a call that is read once more, so its step may be there."""

    @property
    def prompt_keys(self) -> tuple[str, ...]:
        """For each message, the key of the conversation up to it."""
        return self.keys.prompt

    @property
    def conversation_key(self) -> str | None:
        """The key of prompt and response together; None when nothing was answered, for nobody can continue that."""
        return self.keys.conversation

    @property
    def prompt_key(self) -> str | None:
        """Names what was asked, in which dialect, of whom and with which tools; None for what was submitted: only calls are tried again."""
        step = self.step
        return None if self.submitted else asked_key(self.keys, step.dialect, step.model_asked, self.tools)

    @property
    def failed(self) -> bool:
        """Whether the answer failed, was cut off or abandoned, so that the client may ask again. A length limit is no failure."""
        return is_failed(self.step.status, self.step.finish_reason)

    @property
    def conversation(self) -> tuple[bytes, ...]:
        """The messages with the response after them, if there is one."""
        return (*self.messages, self.response) if self.response else self.messages


def draft(
    step: Step,
    messages: list[Message] | None,
    response: Message | None,
    producer: str,
    sequence: int,
    *,
    submitted: bool = True,
    again: bool = False,
    retry: int = 0,
    asked: int = 0,
    histories: Histories | None = None,
) -> Draft:
    """A draft of `step`; `messages` and `response` are its conversation in canonical form. `histories`: of steps before it.

    Raises:
        InvalidRecord: a logprob is no finite float32.
    """
    tokens, histories = None, Histories() if histories is None else histories
    if step.prompt_ids is not None and step.response_ids is not None:
        tokens = histories.ids.join(step.trajectory_id, _ids(step.prompt_ids), _ids(step.response_ids))
    told = histories.told(step.trajectory_id, messages or (), step.model_asked)
    return Draft(
        step=step.model_copy(update=_KEPT_HERE),
        producer=producer,
        sequence=sequence,
        submitted=submitted,
        again=again,
        tokens=tokens,
        prompt_length=len(step.prompt_ids or ()),
        logprobs=_logprobs(step),
        messages=told.messages,
        response=kept(response) if response is not None else b"",
        tools=b"null" if step.tools is None else kept(step.tools),
        keys=answered(told.begun, response),
        retry=retry,
        asked=asked,
    )


def is_failed(status: str, finish_reason: str | None) -> bool:
    """Whether a step of this status is one that its client may try again."""
    return status in ("error", "client_disconnect", "aborted") or (status == "truncated" and finish_reason is None)


def _ids(ids: list[int]) -> Ids:
    return np.frombuffer(ids.packed, np.int32) if isinstance(ids, CheckedIds) and ids else np.asarray(ids, np.int32)


def _logprobs(step: Step) -> Logprobs | None:
    if step.logprobs is None:
        return None
    exact = np.asarray(step.logprobs, np.float64)
    if exact.size and exact.min() < np.finfo(np.float32).min:
        place = int(exact.argmin())
        raise InvalidRecord(f"logprobs[{place}]", f"{exact[place]} is beyond float32, which would make it infinite")
    return exact.astype(np.float32)
