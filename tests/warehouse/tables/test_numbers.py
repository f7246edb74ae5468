"""Numbers as Arrow arrays, without a copy."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from stepwell.warehouse._tables.numbers import as_arrow


@pytest.mark.parametrize(
    "values",
    [
        np.arange(5),
        np.arange(5, dtype=np.int32),
        np.zeros(0, np.int64),
        np.arange(9)[::2],
        np.arange(19) % 3 == 0,
        np.zeros(0, np.bool_),
    ],
)
def test_the_same_numbers(values: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    found = as_arrow(values)
    assert found.equals(pa.array(values))
    found.validate(full=True)


def test_nothing_is_copied_or_imported() -> None:
    values = np.arange(1000)
    assert as_arrow(values).buffers()[1].address == values.ctypes.data
    said = "import sys, numpy; from stepwell.warehouse._tables.numbers import as_arrow; as_arrow(numpy.arange(3) > 1)"
    subprocess.run([sys.executable, "-c", f"{said}; assert 'numpy.ma' not in sys.modules"], check=True)
