from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stepwell.reader._minima import reach_back


@settings(deadline=None)
@given(st.lists(st.integers(-5, 5), min_size=1, max_size=40))
def test_it_goes_as_far_back_as_nothing_is_less(values: list[int]) -> None:
    asked = [(place, bound) for place in range(len(values)) for bound in range(-6, 7)]
    place, bound = np.array(asked).T
    found = reach_back(np.array(values, np.int64), place, bound)
    for (last, least), first in zip(asked, found.tolist(), strict=True):
        assert all(value >= least for value in values[first + 1 : last + 1])
        assert first == -1 or values[first] < least


def test_no_values_and_no_questions() -> None:
    nothing = np.zeros(0, np.int64)
    assert reach_back(nothing, nothing, nothing).tolist() == []
