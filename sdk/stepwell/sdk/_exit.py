"""What happens to deliveries when the process ends or forks."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepwell.sdk._delivery import Delivery

__all__ = ["EXIT_BOUND", "watch", "watch_worker"]

EXIT_BOUND = 5.0
"""Seconds a process takes at most, at its end, to deliver what is left."""

_deliveries: weakref.WeakSet[Delivery] = weakref.WeakSet()
_hooked = threading.Event()
_finalizing = threading.Event()


def watch(delivery: Delivery) -> None:
    """Flush `delivery` at the end of the process, and start it afresh in forked children."""
    _deliveries.add(delivery)
    if not _hooked.is_set():
        _hooked.set()
        atexit.register(_finish)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_start_afresh)


def watch_worker() -> None:
    """In a multiprocessing worker, flush at its end: it ends with os._exit, so only multiprocessing's own finalizers run.

    Called when there is something to deliver, since a forked worker forgets the finalizers of its parent as it starts.
    """
    process, util = sys.modules.get("multiprocessing.process"), sys.modules.get("multiprocessing.util")
    if process is None or util is None or _finalizing.is_set() or process.parent_process() is None:
        return
    _finalizing.set()
    util.Finalize(None, _finish, exitpriority=-100)


def _finish() -> None:
    deadline = time.monotonic() + EXIT_BOUND
    for delivery in list(_deliveries):
        delivery.close(max(0.0, deadline - time.monotonic()))


def _start_afresh() -> None:
    _finalizing.clear()
    for delivery in list(_deliveries):
        delivery.forget()
