"""Whether logprobs are those of the distribution that was sampled from."""

from __future__ import annotations

import numpy as np

from stepwell.reader._arrays import Bools
from stepwell.reader._sampling import bending
from stepwell.reader._select.steps import Coded


def reshaped(sampling: Coded, mode: Coded) -> Bools:
    """Raw logprobs at a temperature other than 1, or of a truncated distribution, are those of another policy: importance ratios built on
    them are wrong without any sign of it. An engine that reports processed ones says so in `logprobs_mode`."""
    bent = np.array([bending(text) is not None for text in sampling.names] + [False])
    processed = np.array([name.startswith("processed") for name in mode.names] + [False])
    found: Bools = bent[sampling.codes] & ~processed[mode.codes]
    return found
