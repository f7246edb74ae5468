"""Which block a caller is in: by its context, and in a thread, by where that was started.

A thread starts with an empty context (unless Python is told otherwise, from 3.14 on), though what it does was asked for by the code around
its start. So from the first block on, `Thread.start` hands over the block that it is called in, and `ThreadPoolExecutor.submit` has
its work done in the block that it is called in: a worker of a pool serves whoever comes, so its own start says nothing.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from stepwell.sdk._fork import ready, undivided

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

    from stepwell.sdk._trajectory import TrajectoryHandle

__all__ = ["block", "enter", "follow_threads", "within"]

P = ParamSpec("P")
T = TypeVar("T")

_OUTSIDE = object()
"""In no block, whatever the thread is in."""
_current: ContextVar[Any] = ContextVar("stepwell_trajectory", default=None)
_following = threading.Event()


@dataclass(frozen=True, slots=True)
class _Started:
    """In the block around the start of the thread."""

    block: TrajectoryHandle


def block() -> TrajectoryHandle | None:
    """The innermost block around the caller; in a thread without one, the innermost around its start that is still open."""
    found = _current.get()
    if isinstance(found, _Started):
        inside: TrajectoryHandle | None = found.block
        while inside is not None and not inside.is_open:  # by now the thread may work for somebody else
            inside = inside.outer
        return inside
    return None if found is _OUTSIDE else found


def enter(place: object) -> object:
    """From now on, this context is in that block, or back where it was: the answer is what to give for that."""
    before = _current.get()
    _current.set(place)
    return before


def within(handle: TrajectoryHandle, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function` in that block."""
    token = _current.set(handle)
    try:
        return function(*args, **kwargs)
    finally:
        _current.reset(token)


def follow_threads() -> None:
    """Have threads and pools know the block that they are used in, from now on."""
    if _following.is_set():
        return
    ready("concurrent.futures.thread")
    from concurrent.futures import ThreadPoolExecutor

    with undivided:
        if not _following.is_set():
            threading.Thread.start = _handing_over(threading.Thread.start)  # type: ignore[assignment, method-assign]
            ThreadPoolExecutor.submit = _carrying(ThreadPoolExecutor.submit)  # type: ignore[method-assign]
            _following.set()


def _handing_over(start: Callable[[threading.Thread], None]) -> Callable[[threading.Thread], None]:
    @functools.wraps(start)
    def handing_over(self: threading.Thread) -> None:
        if self.ident is None and (around := block()) is not None:
            run = self.run

            def inside() -> None:
                self.__dict__.pop("run", None)  # it holds the thread itself
                _current.set(_Started(around))
                run()

            self.__dict__["run"] = inside
        start(self)

    return handing_over


def _carrying(submit: Callable[..., Future[Any]]) -> Callable[..., Future[Any]]:
    @functools.wraps(submit)
    def carrying(self: ThreadPoolExecutor, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        inside = block()
        token = _current.set(_OUTSIDE)  # it may start a worker
        try:
            if inside is None:
                return submit(self, function, *args, **kwargs)
            return submit(self, within, inside, function, *args, **kwargs)
        finally:
            _current.reset(token)

    return carrying
