"""The client: checks records where they are made, and delivers them to the gateway behind the caller's back."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from stepwell.errors import InvalidRecord, SettingsError
from stepwell.sdk import _exit
from stepwell.sdk._address import DEFAULT_URL, address
from stepwell.sdk._calls import Call
from stepwell.sdk._disk import MAX_DISK_BYTES, Disk, folder_for, left_behind
from stepwell.sdk._fields import feedback_fields, now, step_fields
from stepwell.sdk._fork import ready, undivided
from stepwell.sdk._item import Item
from stepwell.sdk._outbox import Outbox
from stepwell.sdk._post import Poster
from stepwell.sdk._recording import ANSWER, answer_item, begun
from stepwell.sdk._reports import Flushed, Status
from stepwell.sdk._sending import Sender
from stepwell.sdk._steps import step_item
from stepwell.sdk._trajectory import TrajectoryHandle, current_trajectory
from stepwell.sdk._wrap import Asking, record_calls

if TYPE_CHECKING:
    import httpx2

    from stepwell.sdk.records import Feedback, Step, Trajectory

__all__ = ["DEFAULT_URL", "Client", "Flushed", "Status"]

_log = logging.getLogger("stepwell.sdk")

MAX_PENDING_BYTES = 256 << 20
_GIVE_UP = 1.0
"""Seconds of trouble after which the end of a process does not wait for a gateway any longer, when the disk can keep what is left."""

C = TypeVar("C")


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
        max_spooled_bytes: int = MAX_DISK_BYTES,
        spool_folder: Path | None = None,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        """`spool_folder`, where records wait while the gateway is away, is by default one under the installation's own. `transport`
        replaces the network, for tests; then nothing waits on the disk unless a folder is named. Raises SettingsError for an
        address that is none.
        """
        self.url = address(url)
        self._token = token
        self._transport = transport
        self._max_pending_bytes = max_pending_bytes
        self._max_spooled_bytes = max_spooled_bytes
        self._folder = spool_folder or (folder_for(self.url) if transport is None else None)
        self._inherited: list[Outbox] = []
        self.forget()
        _exit.watch(self)

    def forget(self) -> None:
        """Start afresh: nothing queued, nothing counted, no thread. A forked child does; what its parent queued is the parent's."""
        folder = self._folder
        disk = Disk.fresh(folder, self._max_spooled_bytes) if folder is not None else None
        self._outbox = Outbox(self._max_pending_bytes, disk)
        self._inherited.append(self._outbox)  # SQLite's connection of the parent is not to be closed by its child
        self._unrecorded = 0
        self._closed = False

        def left(passed_over: set[str]) -> Disk | None:
            return left_behind(folder, disk.path, passed_over) if folder is not None and disk is not None else None

        self._sender = Sender(self._outbox, Poster(self.url, self._find_token, self._transport), left)

    def submit_step(self, step: Step | None = None, /, **fields: Any) -> str:
        """Queue a step, given as a `Step` or by its fields; returns its id at once. Raises InvalidRecord.

        `openai_response=` with `messages=` is a provider's answer as its SDK gave it; the id is that of its first choice.
        """
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

    def wrap(self, client: C) -> C:
        """Record every call of an OpenAI or Anthropic client from now on, and return it. Raises InvalidRecord."""
        record_calls(client, self.begin_call)
        return client

    def begin_call(self, request: Asking) -> Call | None:
        """Follow a call of a wrapped client; None where it is none that becomes steps."""
        try:
            return begun(request, _block(), self._recorded)
        except Exception as error:  # noqa: BLE001 - the boundary of recording: the caller's own call goes on
            self._recorded(f"{type(error).__name__}: {error}")
            return None

    def send_step(self, step: Step | None, fields: Mapping[str, Any], block: Trajectory | None) -> str:
        """`submit_step` with the enclosing trajectory named by the caller."""
        if fields.get(ANSWER) is not None:
            return self._send_answer(step, fields, block)
        if step is not None:
            fields = {**_said(step), **fields}
        return self._queue(step_item(step_fields(fields, block)))

    def _send_answer(self, step: Step | None, fields: Mapping[str, Any], block: Trajectory | None) -> str:
        if step is not None:
            raise InvalidRecord(ANSWER, "comes with the fields of a step, not with a Step")
        item, reward = answer_item(fields, block)
        self._queue(item)
        first = f"{item.id}.0"
        if reward is not None:
            self.send_feedback(None, {"feedback_id": f"{first}.reward", "step_id": first, "reward": reward}, None)
        return first

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
        left = self._settled(deadline)
        done = None
        if committed:
            done = left == 0 and self._barrier(deadline - time.monotonic())
        counts, box = self._sender.counts, self._outbox
        return Flushed(counts.acknowledged, left, counts.refused, box.dropped, min(left, box.spooled), done)

    def _settled(self, deadline: float) -> int:
        """Wait until nothing is left, also of what earlier processes have left; how many of our own records are left."""
        if not self._sender.started and self._folder is not None and self._folder.is_dir():
            self._sender.start()
        left = self._outbox.wait(deadline - time.monotonic())
        if self._sender.started:
            self._sender.caught_up.wait(max(0.0, deadline - time.monotonic()))
        if left:  # whoever flushes wants it safe
            self._outbox.spill()
        return left

    async def aflush(self, timeout: float = 30.0, committed: bool = False) -> Flushed:
        """As `flush`, without holding up the event loop."""
        ready("anyio.to_thread")
        import anyio.to_thread

        return await anyio.to_thread.run_sync(lambda: self.flush(timeout, committed), abandon_on_cancel=True)

    def status(self) -> Status:
        """How delivery is going."""
        box, counts = self._outbox, self._sender.counts
        return Status(
            self.url, len(box), box.bytes, box.spooled, box.disk.bytes if box.disk is not None else 0,
            counts.acknowledged, counts.duplicates, counts.refused, box.dropped, self._unrecorded, counts.recovered,
            counts.problem or box.disk_problem,
        )  # fmt: skip

    def close(self, timeout: float = _exit.EXIT_BOUND) -> None:
        """Deliver what is queued, for at most `timeout` seconds, and stop. What is left waits on the disk for the next process."""
        if self._closed:
            return
        self._closed = True
        box, deadline = self._outbox, time.monotonic() + timeout
        left = box.wait(min(timeout, _GIVE_UP))
        while left and time.monotonic() < deadline and (box.disk is None or self._sender.trouble < _GIVE_UP):
            left = box.wait(min(_GIVE_UP, deadline - time.monotonic()))
        self._sender.stop(max(0.1, deadline - time.monotonic()))
        box.spill()
        if box.disk is not None:
            box.disk.close()
        self._say_what_is_left()

    def _say_what_is_left(self) -> None:
        box, why = self._outbox, self._sender.counts.problem or "no time was left"
        if box.spooled and box.disk is not None:
            _log.warning("%d records wait in %s for the next process: %s", box.spooled, box.disk.path.parent, why)
        if lost := len(box) - box.spooled:
            _log.error("%d records were not delivered: %s", lost, why)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _queue(self, item: Item) -> str:
        box = self._outbox
        if box.put(item):
            if not self._sender.started:
                _exit.watch_worker()
                self._sender.start()
        elif box.dropped == 1:
            why = "the client is closed" if box.closed else f"{box.bytes} bytes wait already"
            _log.error(
                "%s %s was dropped: %s; further ones are only counted: see sdk.status()", item.kind, item.id, why
            )
        return item.id

    def _recorded(self, call: Item | str) -> None:
        """What became of a call of a wrapped client: its exchange, or why there is none."""
        if isinstance(call, Item):
            self._queue(call)
            return
        self._unrecorded += 1
        if self._unrecorded == 1:
            _log.error("a call was not recorded: %s; further ones are only counted: see sdk.status()", call)

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
