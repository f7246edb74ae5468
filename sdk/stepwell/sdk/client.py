"""The client: checks records where they are made, and delivers them to the gateway behind the caller's back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from stepwell.errors import InvalidRecord
from stepwell.sdk._address import DEFAULT_URL, address
from stepwell.sdk._calls import Call
from stepwell.sdk._delivery import MAX_PENDING_BYTES, Delivery
from stepwell.sdk._disk import MAX_DISK_BYTES
from stepwell.sdk._exit import EXIT_BOUND
from stepwell.sdk._feedback import feedback_item
from stepwell.sdk._fields import feedback_fields, now, step_fields
from stepwell.sdk._fork import ready
from stepwell.sdk._item import Item
from stepwell.sdk._recording import ANSWER, answer_item, begun
from stepwell.sdk._reports import Flushed, Status
from stepwell.sdk._steps import step_item
from stepwell.sdk._trajectory import TrajectoryHandle, current_trajectory, trajectory_item, trajectory_record
from stepwell.sdk._wrap import Asking, record_calls

if TYPE_CHECKING:
    import httpx2

    from stepwell.sdk.records import Feedback, Step, Trajectory

__all__ = ["DEFAULT_URL", "Client", "Flushed", "Status"]

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
        self._delivery = Delivery(
            self.url,
            token,
            transport,
            folder=spool_folder,
            max_pending_bytes=max_pending_bytes,
            max_spooled_bytes=max_spooled_bytes,
        )

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
        fields = {"prompt_id": prompt, "group_id": group, "split": split, "policy_version": policy_version, "at": now()}
        record = trajectory_record(id, {**fields, "metadata": None if metadata is None else dict(metadata)})
        return TrajectoryHandle(self, record)

    def wrap(self, client: C) -> C:
        """Record every call of an OpenAI or Anthropic client from now on, and return it. Raises InvalidRecord."""
        record_calls(client, self)
        return client

    def begin_call(self, request: Asking) -> Call:
        """Follow a call of a wrapped client to its end. May raise: then it is to be given to `call_lost`."""
        return begun(request, _block(), self._recorded)

    def call_lost(self, why: str) -> None:
        """Count a call of a wrapped client of which there is no record."""
        self._delivery.lost(why)

    def _recorded(self, call: Item | str) -> None:
        if isinstance(call, Item):
            self._delivery.queue(call)
        else:
            self._delivery.lost(call)

    def renew(self, token: str | None) -> bool:
        """If the gateway has turned down the token, go on with this one, also for what waits; whether that was so."""
        return self._delivery.renew(token)

    def send_step(self, step: Step | None, fields: Mapping[str, Any], block: Trajectory | None) -> str:
        """`submit_step` with the enclosing trajectory named by the caller."""
        if fields.get(ANSWER) is not None:
            return self._send_answer(step, fields, block)
        if step is not None:
            fields = {**_said(step), **fields}
        return self._delivery.queue(step_item(step_fields(fields, block)))

    def _send_answer(self, step: Step | None, fields: Mapping[str, Any], block: Trajectory | None) -> str:
        if step is not None:
            raise InvalidRecord(ANSWER, "comes with the fields of a step, not with a Step")
        item, reward = answer_item(fields, block)
        self._delivery.queue(item)
        first = f"{item.id}.0"
        if reward is not None:
            self.send_feedback(None, {"feedback_id": f"{first}.reward", "step_id": first, "reward": reward}, None)
        return first

    def send_feedback(self, feedback: Feedback | None, fields: Mapping[str, Any], block: Trajectory | None) -> str:
        """`submit_feedback` with the enclosing trajectory named by the caller."""
        if feedback is not None:
            fields = {**_said(feedback), **fields}
        return self._delivery.queue(feedback_item(feedback_fields(fields, block)))

    def send_trajectory(self, record: Trajectory) -> str:
        """Queue what a `trajectory()` block has to say: that it opened, completed or failed."""
        return self._delivery.queue(trajectory_item(record))

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
        return self._delivery.flush(timeout, committed)

    async def aflush(self, timeout: float = 30.0, committed: bool = False) -> Flushed:
        """As `flush`, without holding up the event loop."""
        ready("anyio.to_thread")
        import anyio.to_thread

        return await anyio.to_thread.run_sync(lambda: self.flush(timeout, committed), abandon_on_cancel=True)

    def status(self) -> Status:
        """How delivery is going."""
        return self._delivery.status()

    def forget(self) -> None:
        """Start afresh, as a forked child does: nothing queued, nothing counted, no thread."""
        self._delivery.forget()

    def close(self, timeout: float = EXIT_BOUND) -> None:
        """Deliver what is queued, for at most `timeout` seconds, and stop. What is left waits on the disk for the next process."""
        self._delivery.close(timeout)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _block() -> Trajectory | None:
    handle = current_trajectory()
    return handle.record if handle is not None else None


def _said(record: Step | Feedback) -> dict[str, Any]:
    """A record's own fields, to be checked again together with what the caller and the block add."""
    return {name: value for name, value in record if value is not None}
