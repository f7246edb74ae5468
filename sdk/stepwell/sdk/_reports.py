"""What a client tells of its delivery."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Flushed", "Status"]


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
    """Never sent: the bounds on memory and disk were reached."""
    spooled: int
    """Of the unacknowledged: those that are safe on this machine's disk, also when this process ends."""
    committed: bool | None
    """Whether all of it can be read from the warehouse; None when that was not asked for."""


@dataclass(frozen=True, slots=True)
class Status:
    """How delivery is going."""

    url: str
    pending: int
    """Neither acknowledged nor refused yet: in memory and on the disk."""
    pending_bytes: int
    """Of those in memory."""
    spooled: int
    """Of the pending: those on this machine's disk."""
    spooled_bytes: int
    acknowledged: int
    duplicates: int
    """Of the acknowledged: those the gateway had already, as after a lost answer."""
    refused: int
    dropped: int
    unrecorded: int
    """Calls of wrapped clients that could not be recorded."""
    recovered: int
    """Records that earlier processes had left on the disk, delivered by this one."""
    problem: str | None
    """Why nothing gets through at the moment; None while all is well."""
