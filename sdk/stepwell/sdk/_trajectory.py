"""The `trajectory()` block: names what the steps inside belong to, and says when it is over."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from stepwell.errors import StepwellError
from stepwell.sdk._fields import now

if TYPE_CHECKING:
    from stepwell.sdk.client import Client
    from stepwell.sdk.records import Step, Trajectory

__all__ = ["TrajectoryHandle", "current_trajectory"]

F = TypeVar("F", bound=Callable[..., Any])

_current: ContextVar[TrajectoryHandle | None] = ContextVar("stepwell_trajectory", default=None)


def current_trajectory() -> TrajectoryHandle | None:
    """The innermost block around the caller, in this thread or asyncio task."""
    return _current.get()


class TrajectoryHandle:
    """One rollout of one task, used once as a `with` or `async with` block.

    Entering announces the trajectory; leaving completes it, or fails it with the type name of the exception that leaves.
    """

    def __init__(self, client: Client, record: Trajectory) -> None:
        self.record = record
        self._client = client
        self._outer: TrajectoryHandle | None = None
        self._failure: str | None = None
        self._used = False

    @property
    def id(self) -> str:
        """The trajectory's id, for submissions from elsewhere."""
        return self.record.trajectory_id

    @property
    def trajectory_id(self) -> str:
        return self.record.trajectory_id

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
        """`function`, to be called from anywhere and run inside this block: a thread starts without the blocks around its start.

            with sdk.trajectory() as t, ThreadPoolExecutor() as pool:
                pool.map(t.bind(call_tool), calls)

        Coroutine functions too. asyncio tasks and `asyncio.to_thread` find the block by themselves.
        """

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            token = _current.set(self)
            try:
                return function(*args, **kwargs)
            finally:
                _current.reset(token)

        @functools.wraps(function)
        async def inside_async(*args: Any, **kwargs: Any) -> Any:
            token = _current.set(self)
            try:
                return await function(*args, **kwargs)
            finally:
                _current.reset(token)

        return cast(F, inside_async if inspect.iscoroutinefunction(function) else inside)

    def fail(self, reason: str) -> None:
        """Have the trajectory end as failed although no exception leaves the block."""
        self._failure = str(reason)

    def __enter__(self) -> TrajectoryHandle:
        if self._used:
            raise StepwellError(f"the trajectory {self.id} was entered before: make a new one for each rollout")
        self._used = True
        self._outer = _current.get()
        _current.set(self)
        self._client.send_trajectory(self.record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Set rather than reset by token: an async generator may leave the block in another context than it entered it.
        _current.set(self._outer)
        reason = kind.__name__ if kind is not None else self._failure
        state = "completed" if reason is None else "failed"
        self._client.send_trajectory(self.record.model_copy(update={"state": state, "reason": reason, "at": now()}))

    async def __aenter__(self) -> TrajectoryHandle:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
