"""The `trajectory()` block: names what the steps inside belong to, and says when it is over."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from stepwell.errors import StepwellError
from stepwell.sdk._fields import now
from stepwell.sdk._fork import undivided
from stepwell.sdk._item import Item
from stepwell.sdk._threads import block, enter, follow_threads, within

if TYPE_CHECKING:
    from stepwell.sdk.client import Client
    from stepwell.sdk.records import Step, Trajectory

__all__ = ["TrajectoryHandle", "current_trajectory", "trajectory_item", "trajectory_record"]

F = TypeVar("F", bound=Callable[..., Any])


def current_trajectory() -> TrajectoryHandle | None:
    """The innermost block around the caller, in this asyncio task or thread, or around what started the thread."""
    return block()


class TrajectoryHandle:
    """One rollout of one task, used once as a `with` or `async with` block.

    Entering announces the trajectory; leaving completes it, or fails it with the type name of the exception that leaves.
    """

    def __init__(self, client: Client, record: Trajectory) -> None:
        self.record = record
        self._client = client
        self.outer: TrajectoryHandle | None = None
        """The block around this one."""
        self._before: object = None
        self._failure: str | None = None
        self._entered_in: int | None = None
        """By which process."""
        self._left = False

    @property
    def id(self) -> str:
        """The trajectory's id, for submissions from elsewhere."""
        return self.record.trajectory_id

    @property
    def trajectory_id(self) -> str:
        return self.record.trajectory_id

    @property
    def is_open(self) -> bool:
        """Whether the block was entered and not left yet."""
        return self._entered_in is not None and not self._left

    def submit_step(self, step: Step | None = None, /, **fields: Any) -> str:
        """A step of this trajectory; as `sdk.submit_step`."""
        return self._client.send_step(step, fields, self.record)

    def submit_feedback(self, **fields: Any) -> str:
        """Feedback on this trajectory, unless another target is named; as `sdk.submit_feedback`."""
        return self._client.send_feedback(None, fields, self.record)

    def reward(self, value: float, *, name: str | None = None, **fields: Any) -> str:
        """The trajectory's reward: a finite number. Returns the feedback's id."""
        return self.submit_feedback(trajectory_id=self.id, reward=value, name=name, **fields)

    def label(self, label: str, *, name: str | None = None, **fields: Any) -> str:
        """A label on the trajectory, such as `solved`. Returns the feedback's id."""
        return self.submit_feedback(trajectory_id=self.id, label=label, name=name, **fields)

    def bind(self, function: F) -> F:
        """`function`, to be called from anywhere, also after the end of the block, and run inside it.

            queue.put(t.bind(call_tool))

        Coroutine functions too. asyncio tasks, threads started in the block and what is handed to a ThreadPoolExecutor in it find it by
        themselves; what gets to its thread in another way does not.
        """

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            return within(self, function, *args, **kwargs)

        @functools.wraps(function)
        async def inside_async(*args: Any, **kwargs: Any) -> Any:
            before = enter(self)
            try:
                return await function(*args, **kwargs)
            finally:
                enter(before)

        return cast(F, inside_async if inspect.iscoroutinefunction(function) else inside)

    def fail(self, reason: str) -> None:
        """Have the trajectory end as failed although no exception leaves the block."""
        self._failure = str(reason)

    def __enter__(self) -> TrajectoryHandle:
        if self._entered_in is not None:
            raise StepwellError(f"the trajectory {self.id} was entered before: make a new one for each rollout")
        follow_threads()
        self._entered_in = os.getpid()
        self.outer = block()
        self._before = enter(self)
        self._client.send_trajectory(self.record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Set rather than reset by token: an async generator may leave the block in another context than it entered it.
        enter(self._before)
        self._left = True
        if self._entered_in != os.getpid():  # a forked child on its way out: the rollout goes on without it
            return
        reason = kind.__name__ if kind is not None else self._failure
        state = "completed" if reason is None else "failed"
        self._client.send_trajectory(self.record.model_copy(update={"state": state, "reason": reason, "at": now()}))

    async def __aenter__(self) -> TrajectoryHandle:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def trajectory_record(id: str | None, fields: Mapping[str, Any]) -> Trajectory:
    """The record of a trajectory with these fields, under a fresh id where none is given. Raises InvalidRecord."""
    with undivided:
        from stepwell.sdk.records import Trajectory, checked

        return checked(Trajectory, fields if id is None else {"trajectory_id": id, **fields})


def trajectory_item(record: Trajectory) -> Item:
    """The item to send of it."""
    with undivided:
        from stepwell.sdk.records import encoded

        return Item("trajectory", record.trajectory_id, encoded(record))
