"""The collector of cyclic garbage, asked to look less often while a flush is made.

What a flush makes are hundreds of thousands of small objects without cycles, which live until it is written. Each would be looked at
again and again, for a fifth of the time that all of it takes.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = 200_000


@contextmanager
def seldom_collected() -> Iterator[None]:
    """For the whole process, as long as it lasts."""
    before = gc.get_threshold()
    gc.set_threshold(max(before[0], _SELDOM) if before[0] else 0, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
