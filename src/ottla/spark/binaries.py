"""Arrow columns from slices of one buffer."""

from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ottla.spark.varints import Bytes, Positions

Nulls: TypeAlias = NDArray[np.bool_]


class Spans(NamedTuple):
    """The positions of a column's values. A null value has a position and the length 0."""

    starts: Positions
    stops: Positions
    nulls: Nulls


def binary_columns(data: Bytes, *columns: Spans) -> list[pa.Array]:
    """Binary columns from values that lie in the data row by row, and within each row in the order of the columns.

    All boundaries are ascending, so they serve as the offsets of one Arrow array over the data. This array also has
    elements for the gaps between values. Every column is a selection from it, so Arrow copies the bytes only once.
    """
    count, width = len(columns[0].starts), 2 * len(columns)
    if not count:
        return [pa.array([], pa.binary()) for _ in columns]
    bounds = np.empty(width * count, np.int32)
    for index, spans in enumerate(columns):
        bounds[2 * index :: width] = spans.starts
        bounds[2 * index + 1 :: width] = spans.stops
    whole = pa.BinaryArray.from_buffers(
        pa.binary(), width * count - 1, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    rows = np.arange(0, width * count, width, dtype=np.int32)
    return [
        whole.take(pa.array(rows + 2 * index, mask=spans.nulls if spans.nulls.any() else None))
        for index, spans in enumerate(columns)
    ]
