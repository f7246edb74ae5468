"""Frames of a page that came late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_WATCH = """() => {
  const seen = (window.seen = { frames: 0, late: 0, worst: 0, going: true });
  let before = 0;
  const next = (now) => {
    if (before) {
      seen.frames += 1;
      seen.late += Math.max(0, Math.round((now - before) / (1000 / 60)) - 1);
      seen.worst = Math.max(seen.worst, now - before);
    }
    before = now;
    if (seen.going) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
}"""


@dataclass
class Frames:
    """Of those that were due, sixty a second."""

    percent: float = 0.0
    """How many did not come."""
    worst: float = 0.0
    """The longest time without one, in milliseconds."""


@contextmanager
def late(page: Any) -> Iterator[Frames]:
    """The frames of a page while the block runs."""
    frames = Frames()
    page.evaluate(_WATCH)
    yield frames
    seen = page.evaluate("() => { window.seen.going = false; return window.seen; }")
    frames.percent = 100 * seen["late"] / max(1, seen["frames"] + seen["late"])
    frames.worst = seen["worst"]
