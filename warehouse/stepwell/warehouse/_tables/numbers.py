"""Numbers from numpy to Arrow, as they lie in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


def as_arrow(values: NDArray[np.signedinteger[Any] | np.bool_]) -> pa.Array:
    """Signed whole numbers [n] as an Arrow array of the same width, not copied; or truth values [n].

    `pa.array` would do the same, and import `numpy.ma` to look whether they are masked: that takes longer than a page does.
    """
    if values.dtype == np.bool_:
        return pa.Array.from_buffers(
            pa.bool_(), len(values), [None, pa.py_buffer(np.packbits(values, bitorder="little"))]
        )
    together = np.ascontiguousarray(values)
    type_ = {4: pa.int32(), 8: pa.int64()}[together.itemsize]
    return pa.Array.from_buffers(type_, len(together), [None, pa.py_buffer(together)])
