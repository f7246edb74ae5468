from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from stepwell.errors import MissingExtra
from stepwell.reader.adapters import tinker_datums, to_tinker

Make = Callable[..., Any]


def test_labels_are_shifted(made: Make) -> None:
    _, short, other = to_tinker(made())
    assert short["model_input"].tolist() == [1, 2] and short["target_tokens"].tolist() == [2, 21]
    assert short["mask"].tolist() == [0, 1] and short["logprobs"].tolist() == pytest.approx([0, -0.1])
    assert other["advantages"].tolist() == pytest.approx([2 / 11] * 4)
    assert [values.dtype for values in short.values()] == [np.int64, np.int64, *[np.float32] * 3]


@pytest.mark.skipif(find_spec("tinker") is not None, reason="tinker is installed here")
def test_datums_need_tinker(made: Make) -> None:
    with pytest.raises(MissingExtra, match="'tinker' is missing, and a Datum"):
        tinker_datums(made())
