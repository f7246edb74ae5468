"""The client: checks records where they are made, and delivers them to the gateway behind the caller's back."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stepwell.errors import SettingsError
from stepwell.sdk import _exit
from stepwell.sdk._fields import feedback_fields, now, step_fields
from stepwell.sdk._fork import ready, undivided
from stepwell.sdk._outbox import Item, Outbox
from stepwell.sdk._post import Poster
from stepwell.sdk._sending import Sender
from stepwell.sdk._trajectory import TrajectoryHandle, current_trajectory

if TYPE_CHECKING:
    import httpx2

    from stepwell.sdk.records import Feedback, Step, Trajectory

__all__ = ["DEFAULT_URL", "Client", "Flushed", "Status"]

_log = logging.getLogger("stepwell.sdk")

DEFAULT_URL = "http://127.0.0.1:8787"
MAX_PENDING_BYTES = 256 << 20


@dataclass(frozen=True, slots=True)
class Flushed:
    """What `flush` found. Counts are of this client's whole life, save for `unacknowledged`."""

    acknowledged: int
    """On the gateway's disk."""
    unacknowledged: int
    """Of what was submitted before this flush: neither acknowledged nor refused yet. It is still being sent."""
    refused: int
    """Turned down by the gateway for good; the first was logged."""
    dropped: int
    """Never sent: the bound on memory was reached."""
    committed: bool | None
    """Whether all of it can be read from the warehouse; None when that was not asked for."""


@dataclass(frozen=True, slots=True)
class Status:
    """How delivery is going."""

    url: str
    pending: int
    pending_bytes: int
    acknowledged: int
    duplicates: int
    """Of the acknowledged: those the gateway had already, as after a lost answer."""
    refused: int
    dropped: int
    problem: str | None
    """Why nothing gets through at the moment; None while all is well."""


class Client:
    """One gateway's client. Thread-safe, fork-safe, needs no event loop.

    Records are checked and serialised by the caller's thread; a daemon thread delivers them. Invalid input raises
    `InvalidRecord` at once; trouble with delivery never raises: it is counted, logged once, and seen in `status()`.

    The token left out is read from the installation's folder before each request, so an agent may start before its gateway.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        token: str | None = None,
        *,
        max_pending_bytes: int = MAX_PENDING_BYTES,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """Raises SettingsError for an address that is none. `transport` replaces the network, for tests."""
        self.url = _address(url)
        self._token = token
        self._transport = transport
        self._max_pending_bytes = max_pending_bytes
        self.forget()
        _exit.watch(self)

    def forget(self) -> None:
        """Start afresh: nothing queued, nothing counted, no thread. A forked child does; what its parent queued is the parent's."""
        self._outbox = Outbox(self._max_pending_bytes)
        self._sender = Sender(self._outbox, Poster(self.url, self._find_token, self._transport))

    def submit_step(self, step: Step | None = None, /, **fields: Any) -> str:
        """Queue a step, given as a `Step` or by its fields; returns its id at once. Raises InvalidRecord."""
        return self.send_step(step, fields, _block())

    def submit_feedback(self, feedback: Feedback | None = None, /, **fields: Any) -> str:
        """Queue feedback, given as a `Feedback` or by its fields; returns its id at once. Raises InvalidRecord."""
        return self.send_feedback(feedback, fields, _block())

    def trajectory(
        self,
        id: str | None = None,
        *,
        prompt: str | None = None,
        group: str | None = None,
        split: str = "train",
        policy_version: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> TrajectoryHandle:
        """A block, for `with` and `async with`, that the steps and feedback submitted inside belong to. Raises InvalidRecord."""
        fields: dict[str, Any] = {
            "prompt_id": prompt,
            "group_id": group,
            "split": split,
            "policy_version": policy_version,
            "metadata": None if metadata is None else dict(metadata),
            "at": now(),
        }
        with undivided:
            from stepwell.sdk.records import Trajectory, checked

            record = checked(Trajectory, fields if id is None else {"trajectory_id": id, **fields})
        return TrajectoryHandle(self, record)

    def send_step(self, step: Step | None, fields: Mapping[str, Any], block: Trajectory | None) -> str:
        """`submit_step` with the enclosing trajectory named by the caller."""
        if step is not None:
            fields = {**_said(step), **fields}
        fields = step_fields(fields, block)
        with undivided:
            from stepwell.sdk.records import Step, checked, encoded

            record = checked(Step, fields)
            body = encoded(record)
        return self._queue(Item("step", record.step_id, body))

    def send_feedback(self, feedback: Feedback | None, fields: Mapping[str, Any], block: Trajectory | None) -> str:
        """`submit_feedback` with the enclosing trajectory named by the caller."""
        if feedback is not None:
            fields = {**_said(feedback), **fields}
        fields = feedback_fields(fields, block)
        with undivided:
            from stepwell.sdk.records import Feedback, checked, encoded

            record = checked(Feedback, fields)
            body = encoded(record)
        return self._queue(Item("feedback", record.feedback_id, body))

    def send_trajectory(self, record: Trajectory) -> str:
        """Queue what a `trajectory()` block has to say: that it opened, completed or failed."""
        with undivided:
            from stepwell.sdk.records import encoded

            body = encoded(record)
        return self._queue(Item("trajectory", record.trajectory_id, body))

    async def asubmit_step(self, step: Step | None = None, /, **fields: Any) -> str:
        """As `submit_step`, which never blocks."""
        return self.submit_step(step, **fields)

    async def asubmit_feedback(self, feedback: Feedback | None = None, /, **fields: Any) -> str:
        """As `submit_feedback`, which never blocks."""
        return self.submit_feedback(feedback, **fields)

    def flush(self, timeout: float = 30.0, committed: bool = False) -> Flushed:
        """Wait until everything submitted so far is on the gateway's disk; with `committed`, until it is in the warehouse.

        Returns after `timeout` seconds at the latest, and says what is still on its way; never raises for that.
        """
        deadline = time.monotonic() + timeout
        left = self._outbox.wait(timeout)
        done = None
        if committed:
            done = left == 0 and self._barrier(deadline - time.monotonic())
        counts = self._sender.counts
        return Flushed(counts.acknowledged, left, counts.refused, self._outbox.dropped, done)

    async def aflush(self, timeout: float = 30.0, committed: bool = False) -> Flushed:
        """As `flush`, without holding up the event loop."""
        ready("anyio.to_thread")
        import anyio.to_thread

        return await anyio.to_thread.run_sync(lambda: self.flush(timeout, committed), abandon_on_cancel=True)

    def status(self) -> Status:
        """How delivery is going."""
        box, counts = self._outbox, self._sender.counts
        return Status(
            self.url, len(box), box.bytes, counts.acknowledged, counts.duplicates, counts.refused, box.dropped,
            counts.problem,
        )  # fmt: skip

    def close(self, timeout: float = _exit.EXIT_BOUND) -> None:
        """Deliver what is queued, for at most `timeout` seconds, and stop. What is left is counted and logged."""
        deadline = time.monotonic() + timeout
        left = self._outbox.wait(timeout)
        self._sender.stop(max(0.1, deadline - time.monotonic()))
        if left:
            _log.error("%d records were not delivered: %s", left, self._sender.counts.problem or "no time was left")

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _queue(self, item: Item) -> str:
        if self._outbox.put(item):
            if not self._sender.started:
                _exit.watch_worker()
                self._sender.start()
        elif self._outbox.dropped == 1:
            _log.error(
                "%s %s was dropped: %s; further ones are only counted: see sdk.status()",
                item.kind, item.id,
                "the client is closed" if self._outbox.closed else f"{self._outbox.bytes} bytes wait already",
            )  # fmt: skip
        return item.id

    def _barrier(self, timeout: float) -> bool:
        poster = Poster(self.url, self._find_token, self._transport)
        try:
            reason = poster.barrier(max(0.0, timeout))
        finally:
            poster.close()
        if reason is not None:
            _log.warning("not known to be in the warehouse yet: %s", reason)
        return reason is None

    def _find_token(self) -> str | None:
        ready("stepwell.home")
        from stepwell.home import read_token

        try:
            return self._token or read_token()
        except (
            SettingsError
        ) as error:  # an unreadable file: the gateway's 401 is what the user then sees, with this reason
            _log.debug("%s", error)
            return None


def _block() -> Trajectory | None:
    handle = current_trajectory()
    return handle.record if handle is not None else None


def _said(record: Step | Feedback) -> dict[str, Any]:
    """A record's own fields, to be checked again together with what the caller and the block add."""
    return {name: value for name, value in record if value is not None}


def _address(url: str) -> str:
    """`scheme://host[:port][/path]` without a trailing slash; credentials have their own setting and would end in logs."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except (ValueError, AttributeError):
        raise _no_address(url) from None
    if not known or parts.query or parts.fragment:
        raise _no_address(url)
    if parts.username is not None:
        raise SettingsError("the gateway's address must not carry credentials: give the token on its own")
    return url.rstrip("/")


def _no_address(url: object) -> SettingsError:
    return SettingsError(f"{url!r} is no address of a gateway: give something like {DEFAULT_URL}")
