"""The process's own client, behind the module-level functions."""

from __future__ import annotations

import logging
import os
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from stepwell.errors import SettingsError
from stepwell.sdk._calls import Call
from stepwell.sdk._exit import EXIT_BOUND
from stepwell.sdk._trajectory import TrajectoryHandle
from stepwell.sdk._wrap import Asking, record_calls
from stepwell.sdk.client import DEFAULT_URL, Client, Flushed, Status

if TYPE_CHECKING:
    from stepwell.sdk.records import Feedback, Step

_log = logging.getLogger("stepwell.sdk")

C = TypeVar("C")


class _Holder:
    """Makes the client at first use, exchanges it at `configure`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._client: Client | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._unlock)

    def get(self) -> Client:
        if (client := self._client) is not None:
            return client
        with self._lock:
            if self._client is None:
                self._client = Client(*_settings(None, None))
            return self._client

    def configure(self, url: str | None, token: str | None) -> None:
        url, token = _settings(url, token)
        made = Client(url, token)
        with self._lock:
            # The client before stays at work: a block entered with it goes on using it, and the end of the process flushes it.
            # One that waits for a good token stays in its place, so that the order is kept.
            before = self._client
            if before is None or before.url != made.url or not before.renew(token):
                self._client = made

    def exchange(self, client: Client | None) -> Client | None:
        with self._lock:
            before, self._client = self._client, client
        return before

    def _unlock(self) -> None:
        self._lock = threading.Lock()  # another thread of the parent may have held it


_holder = _Holder()


def _settings(url: str | None, token: str | None) -> tuple[str, str | None]:
    """The address and the token, with what is left out from the environment."""
    return url or os.environ.get("STEPWELL_URL") or DEFAULT_URL, token or os.environ.get("STEPWELL_TOKEN") or None


def configure(url: str | None = None, token: str | None = None) -> None:
    """Say which gateway to submit to. What is left out comes from STEPWELL_URL and STEPWELL_TOKEN, else the local
    installation's. What was queued for an earlier gateway is still delivered there; where that is the same one, and it turned down
    the token, with the new token. Raises SettingsError.
    """
    _holder.configure(url, token)


def use(client: Client | None) -> Client | None:
    """Have the functions of this module submit through `client` from now on; returns the one before, which stays at work.

    None: through a new one, made at the next use.
    """
    return _holder.exchange(client)


def submit_step(step: Step | None = None, /, **fields: Any) -> str:
    """Queue a step and return its id at once.

    Takes a `Step` or its fields; `step`, `trajectory`, `group`, `prompt` and `parent` are short for the fields ending in `_id`. Inside
    a `trajectory()` block what the block knows is filled in. `openai_response=` with `messages=` takes a provider's answer as its
    SDK gave it (OpenAI, Anthropic, Gemini); each choice is a step `<call_id>.<number>`, and the id returned is that of the first.
    Raises InvalidRecord, naming the field.
    """
    return _holder.get().submit_step(step, **fields)


def wrap(client: C) -> C:
    """Record every call that an OpenAI or Anthropic client makes from now on, and return that client.

    Sync or async, streamed or not, retries too: each call becomes an exchange, and its steps belong to the `trajectory()` block around
    it. What the client returns does not change. Not for what runs behind Stepwell's proxy, which records the same calls.
    Raises InvalidRecord for what is no such client, SettingsError for a gateway's address that is none.
    """
    _holder.get()  # an address that is none is said here, where nothing is lost by it
    record_calls(client, _Current())
    return client


class _Current:
    """Records with the client of the moment of each call."""

    def begin_call(self, request: Asking) -> Call:
        return _holder.get().begin_call(request)

    def call_lost(self, why: str) -> None:
        try:
            _holder.get().call_lost(why)
        except SettingsError as error:  # after a close(), with settings that were changed: there is no client to count
            _log.error("a call was not recorded: %s", error)


def submit_feedback(feedback: Feedback | None = None, /, **fields: Any) -> str:
    """Queue feedback and return its id at once.

    The target is `step=`, `trajectory=`, `group=` or `response_id=`; inside a `trajectory()` block it may be left out and is
    that trajectory. `chosen=` with `rejected=` is a preference between two steps. Raises InvalidRecord, naming the field.
    """
    return _holder.get().submit_feedback(feedback, **fields)


def trajectory(
    id: str | None = None,
    *,
    prompt: str | None = None,
    group: str | None = None,
    split: str = "train",
    policy_version: int | None = None,
    metadata: dict[str, Any] | None = None,
) -> TrajectoryHandle:
    """A `with` or `async with` block for one rollout; nested calls, asyncio tasks and threads started inside find it.

    Leaving it completes the trajectory, or fails it with the name of the exception that leaves. Raises InvalidRecord.
    """
    return _holder.get().trajectory(
        id, prompt=prompt, group=group, split=split, policy_version=policy_version, metadata=metadata
    )


def flush(timeout: float = 30.0, committed: bool = False) -> Flushed:
    """Wait until everything submitted so far is on the gateway's disk; with `committed`, until it is in the warehouse.

    Says what is not, and how much of that is safe on this machine's disk, when `timeout` seconds are over.
    """
    return _holder.get().flush(timeout, committed)


def close(timeout: float = EXIT_BOUND) -> None:
    """Deliver what is queued, for at most `timeout` seconds, and stop. What is left waits on the disk for the next process.

    A later submission starts a new client.
    """
    if (client := _holder.exchange(None)) is not None:
        client.close(timeout)


def status() -> Status:
    """How delivery is going: what waits, what was acknowledged, refused or dropped, and the trouble at the moment."""
    return _holder.get().status()


async def asubmit_step(step: Step | None = None, /, **fields: Any) -> str:
    """As `submit_step`, which never blocks."""
    return submit_step(step, **fields)


async def asubmit_feedback(feedback: Feedback | None = None, /, **fields: Any) -> str:
    """As `submit_feedback`, which never blocks."""
    return submit_feedback(feedback, **fields)


async def aflush(timeout: float = 30.0, committed: bool = False) -> Flushed:
    """As `flush`, without holding up the event loop."""
    return await _holder.get().aflush(timeout, committed)
