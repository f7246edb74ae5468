"""Stored steps as what later ones can be differences to."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stepwell.warehouse._encode.align import Ids
from stepwell.warehouse._encode.delta import Base
from stepwell.warehouse._encode.payloads import Lookup
from stepwell.warehouse._link.trajectories import MAX_BASES
from stepwell.warehouse._restore.bases import Bases, Broken
from stepwell.warehouse._restore.texts import Texts
from stepwell.warehouse._restore.whole import WHOLE, needed, restore_batches
from stepwell.warehouse._tables.arrow import row_views

_log = logging.getLogger(__name__)

BASE_COLUMNS = (*WHOLE, "response", "response_ids", "prompt_length", "conversation_key")
"""What a reader is to ask for, so that `bases_of` has all that it needs."""


def bases_of(stored: pa.Table, payloads: Lookup, recent: int = MAX_BASES) -> Iterator[Base | None]:
    """Each row of `stored`, in the order in which they came; None for one that cannot be restored.

    What comes next is then stored without it. Ids are there for the `recent` last of each trajectory only.
    """
    broken: Broken = {}
    texts = Texts(Bases(stored), payloads, broken)
    said, tools, lost = texts.conversations(), texts.tools().to_pylist(), dict[str, str]()
    tokens = _tokens(stored, _last_of_each(stored, recent), lost)
    lists: dict[str | None, bytes] = {}
    columns = ("step_id", "base_depth", "prompt_length", "conversation_key")
    for row, (id_, depth, length, key) in enumerate(zip(*(stored[name].to_pylist() for name in columns), strict=True)):
        reason = broken.get(row) or lost.get(id_)
        if reason is not None:
            _log.warning("what comes next cannot be a difference to step %s: %s", id_, reason)
            yield None
            continue
        asked = lists.setdefault(tools[row], (tools[row] or "null").encode())  # one object for all that have the same
        yield Base(id_, depth, tokens.pop(id_, None), said[row], asked, length or 0, key)


def _last_of_each(stored: pa.Table, most: int) -> NDArray[np.bool_]:
    left = Counter(trajectories := stored["trajectory_id"].to_pylist())
    found = np.zeros(stored.num_rows, np.bool_)
    for row, trajectory_id in enumerate(trajectories):
        left[trajectory_id] -= 1
        found[row] = left[trajectory_id] < most
    return found


def _tokens(stored: pa.Table, recent: NDArray[np.bool_], lost: dict[str, str]) -> dict[str, Ids]:
    """Prompt and response of the `recent` steps that have ids: a few trajectories at a time, for the prompts of many would not fit."""
    wanted = stored["step_id"].filter(pa.array(recent)).combine_chunks()
    steps = stored.select([*needed(["prompt_ids"]), "trajectory_id"]).sort_by("trajectory_id")
    found: dict[str, Ids] = {}
    for batch in restore_batches(steps, ["prompt_ids"], wanted=wanted, broken=lost):
        both = row_views(batch["prompt_ids"]), row_views(batch["response_ids"])
        for id_, prompt, response in zip(batch["step_id"].to_pylist(), *both, strict=True):
            if prompt is not None and response is not None:
                found[id_] = np.concatenate([prompt, response])
    return found
