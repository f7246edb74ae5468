"""What a trainer must not be handed; `test_dataset.py` shows the same rules through `read_groups`."""

from __future__ import annotations

import pyarrow as pa
import pytest

from stepwell.errors import InvalidRecord
from stepwell.reader._usable import require_old_logprobs


def _group(sampling: str | None, logprobs: list[float] | None = None) -> pa.Table:
    return pa.table(
        {
            "step_id": ["s"],
            "group_id": ["g"],
            "sampling": pa.array([sampling], pa.string()),
            "logprobs_mode": pa.array([None], pa.string()),
            "logprobs": pa.array([logprobs], pa.list_(pa.float32())),
        }
    )


@pytest.mark.parametrize("sampling", [None, "{}", '{"temperature":1,"top_p":1.0,"top_k":-1,"min_p":0}', '{"top_k":0}'])
def test_what_leaves_the_distribution_alone_is_taken(sampling: str | None) -> None:
    require_old_logprobs(_group(sampling, [-0.5]))


@pytest.mark.parametrize("sampling", ['{"temperature":0}', '{"top_p":0.99}', '{"top_k":40}', '{"min_p":0.05}'])
def test_what_bends_it_is_named(sampling: str) -> None:
    with pytest.raises(InvalidRecord, match=sampling.strip("{}").split('"')[1]):
        require_old_logprobs(_group(sampling, [-0.5]))
    require_old_logprobs(_group(sampling))  # without logprobs there is nothing to mistake
