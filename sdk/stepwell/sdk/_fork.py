"""What a fork must not cut in two.

A process that forks while one of its threads is in the middle of an import, or of the first use of a validator, leaves its child with a
lock that nobody will ever release: the child hangs at its own first submission. The delivery thread imports in the background,
just when a program is likely to start its workers. So a fork waits until such a passage is over (a third of a second, once). SQLite has
locks of its own, so it also waits for a write to the offline spool.
"""

from __future__ import annotations

import os
import threading
from importlib import import_module

__all__ = ["ready", "undivided", "writing"]

undivided = threading.RLock()
"""Held through such a passage, and by whoever forks."""
writing = threading.RLock()
"""Held while SQLite is at work, and by whoever forks. Never waited for by who holds `undivided`, except to fork."""

_loaded: set[str] = set()

if hasattr(os, "register_at_fork"):
    # Those registered last are acquired first: nobody who holds `writing` waits for `undivided`.
    for lock in (writing, undivided):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def ready(*modules: str) -> None:
    """Import `modules` whole; an `import` statement after this neither waits nor loads anything."""
    if not _loaded.issuperset(modules):
        with undivided:
            for module in modules:
                import_module(module)
            _loaded.update(modules)
