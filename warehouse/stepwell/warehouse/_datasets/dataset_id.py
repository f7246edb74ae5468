"""The ids of datasets say when they were made: by that the rows of one that is nowhere registered are told from those that are new."""

from __future__ import annotations

import time
import uuid


def new_id() -> str:
    """A UUID of version 7 (RFC 9562): milliseconds since the epoch, then chance. 32 hexadecimal digits."""
    chance = uuid.uuid4().hex
    return f"{time.time_ns() // 1_000_000:012x}7{chance[13:]}"


def made_at(dataset_id: str) -> float | None:
    """Seconds since the epoch, by the clock of who made it; None where the id does not say."""
    try:
        is_timed = uuid.UUID(hex=dataset_id).version == 7
    except ValueError:
        return None
    return int(dataset_id[:12], 16) / 1000 if is_timed else None
